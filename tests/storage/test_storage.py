from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import sysbags
from clips import moving_frames
from helpers import make_system
from sysbags import bags, storage
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.scores.moments import moments
from sysbags.distances.embedding import embed, fit_embedding
from sysbags.errors import FileError, ParameterError, SysbagsError
from sysbags.storage import files
from sysbags.storage.files import Reader, Writer
from sysbags.storage.kinds import KINDS

CLIPS = [moving_frames(14, 40, 48, seed=seed) for seed in range(6)]
LABELS = ["sea", "wood", "sea", "wood", "sea", "wood"]
SCORES = -np.random.default_rng(0).random((6, 2))
SYSTEMS = [make_system(seed) for seed in range(6)]


def onnx_model():
    """Three channels in, five out, small enough to be written by hand."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).standard_normal((5, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def pipeline(bag, **options):
    model = sysbags.NearestMean(**options)
    return Pipeline([("bags", bag), ("systems", sysbags.SystemIdentifier(2)), ("classify", model)]).fit(
        CLIPS, LABELS
    )


def stream(bag):
    return [bag.stream(clip) for clip in CLIPS[:2]]


def distances(system):
    return sysbags.pairwise_distances([system], SYSTEMS, lambda_mu=1.0)


# For each kind: something fitted, and what it does.
EXAMPLES = {
    "System": (lambda: SYSTEMS[0].compress(8), distances),
    "FrechetMean": (lambda: sysbags.frechet_mean(SYSTEMS), lambda mean: distances(mean.system)),
    "StreamEmbedding": (
        lambda: fit_embedding(SYSTEMS, 7),
        lambda embedding: embed(embedding, SYSTEMS),
    ),
    "Calibration": (
        lambda: Calibration.fit(SCORES, -SCORES, np.arange(6) % 2, np.arange(6) // 2),
        lambda calibration: calibration.p_values(SCORES[:4], -SCORES[:4]),
    ),
    "LocalBinaryPatterns": (lambda: bags.LocalBinaryPatterns(8, 2, "uniform", window=3, step=2), stream),
    "PlanePatterns": (lambda: bags.PlanePatterns((2, 1, 1), "default", window=2), stream),
    "VisualWords": (
        lambda: bags.VisualWords(6, "sift", assignment="soft", frames={"stride": 2}).fit(CLIPS),
        stream,
    ),
    "OpticalFlow": (lambda: bags.OpticalFlow(frames={"stride": 2}), stream),
    "ColourHistogram": (lambda: bags.ColourHistogram((2, 3, 4), grid=3, window=2), stream),
    "DeepActivations": (
        lambda: bags.DeepActivations(onnx_model().SerializeToString(), size=(16, 24), mean=(1.0, 2.0, 3.0)),
        stream,
    ),
    "PatchWords": (
        lambda: bags.PatchWords(6, onnx_model().SerializeToString(), size=(16, 24), temperature=0.1).fit(
            CLIPS[:2]
        ),
        stream,
    ),
    "BagUnion": (
        lambda: bags.BagUnion([("lbp", bags.LocalBinaryPatterns()), ("words", bags.VisualWords(5))]).fit(
            CLIPS
        ),
        stream,
    ),
    "SystemIdentifier": (
        lambda: sysbags.SystemIdentifier("auto", "intersection", margin=0.01),
        lambda identifier: identifier.transform([system.samples for system in SYSTEMS]),
    ),
    "NearestSystem": (
        lambda: sysbags.NearestSystem(3, lambda_mu=0.5).fit(SYSTEMS, LABELS),
        lambda model: (model.kneighbors(SYSTEMS), model.predict(SYSTEMS)),
    ),
    "NearestMean": (
        lambda: sysbags.NearestMean(compress=10, lambda_a=1 / 3, embedding=20).fit(SYSTEMS, LABELS),
        lambda model: (model.distances(SYSTEMS), model.predict(SYSTEMS)),
    ),
    "KernelRidgeClassifier": (
        lambda: sysbags.KernelRidgeClassifier(metric="alignment", lambda_a=1.0, lambda_mu=1.0, width=2.0).fit(
            [(system, system.compress(12)) for system in SYSTEMS], LABELS
        ),
        lambda model: model.decision_function([(system, system) for system in SYSTEMS]),
    ),
    "Moments": (
        lambda: moments(SYSTEMS[0].samples, np.array([0, 1, 4])),
        lambda found: found.squared(found),
    ),
    "StreamClassifier": (
        lambda: sysbags.StreamClassifier(size=12).fit([system.samples for system in SYSTEMS], LABELS),
        lambda model: model.decision_function([system.samples for system in SYSTEMS]),
    ),
    "Pipeline": (
        lambda: pipeline(bags.LocalBinaryPatterns(), compress=10),
        lambda model: (model.decision_function(CLIPS), model.predict(CLIPS)),
    ),
}


NOT_ESTIMATORS = {"System", "FrechetMean", "Calibration", "Moments", "Pipeline"}


def flat(value):
    """A value as nested tuples that are equal only for the same bits."""
    if isinstance(value, np.ndarray):
        content = flat(value.tolist()) if value.dtype == object else value.tobytes()
        return "array", value.dtype.str, value.shape, content
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return type(value), *((field.name, flat(getattr(value, field.name))) for field in fields)
    if hasattr(value, "get_params"):
        # What is computed when it is first needed is not saved.
        known = {key: item for key, item in vars(value).items() if key not in ("_embedded", "factor_")}
        return type(value), *((key, flat(item)) for key, item in sorted(known.items()))
    if isinstance(value, dict):
        return "dict", *((key, flat(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), *map(flat, value)
    return type(value), repr(value)


def there_and_back(folder, obj):
    storage.save(folder / "model.sysbags", obj)
    return storage.load(folder / "model.sysbags")


def test_every_kind_has_an_example():
    assert EXAMPLES.keys() == KINDS.keys()
    assert set(bags.__all__) < KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(tmp_path, kind):
    make, use = EXAMPLES[kind]
    obj = make()
    result = flat(use(obj))  # fills the caches of systems
    restored = there_and_back(tmp_path, obj)
    assert flat(restored) == flat(obj)
    assert flat(use(restored)) == result
    assert storage.describe(tmp_path / "model.sysbags")["kind"] == kind


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - NOT_ESTIMATORS))
def test_round_trip_before_fit(tmp_path, kind):
    estimator = EXAMPLES[kind][0]()
    blank = type(estimator)(**estimator.get_params(deep=False))
    assert flat(there_and_back(tmp_path, blank)) == flat(blank)


@pytest.mark.parametrize("kernel", ["chi2", "linear"])
def test_embeddings_that_are_given(tmp_path, kernel):
    systems = [dataclasses.replace(system, kernel=kernel, _observer_gram=None) for system in SYSTEMS]
    model = sysbags.NearestSystem(embedding=fit_embedding(systems, 9)).fit(systems, LABELS)
    restored = there_and_back(tmp_path, model)
    assert flat(restored) == flat(model)
    assert flat(restored.kneighbors(systems)) == flat(model.kneighbors(systems))


@pytest.mark.parametrize("make", [sysbags.NearestSystem, sysbags.NearestMean])
def test_models_from_before_there_were_embeddings(make):
    model, writer = make().fit(SYSTEMS, LABELS), Writer()
    [(name, tree)] = writer.put(model).items()
    del tree["parameters"]["embedding"], tree["kept"]["embeddings_"], tree["kept"]["embedding_errors_"]
    restored = Reader(writer.arrays).get({name: tree})
    assert restored.embedding is restored.embeddings_ is restored.embedding_errors_ is None
    assert flat(restored.compare(SYSTEMS)) == flat(model.compare(SYSTEMS))
    assert flat(restored.compressed(8).compare(SYSTEMS)) == flat(model.compressed(8).compare(SYSTEMS))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kernel": "os.system"}, "kernel is 'os.system', but"),
        ({"kernel": "linear"}, "a StreamEmbedding has landmarks unless"),
        ({"landmarks_": None}, "a StreamEmbedding has landmarks unless"),
        ({"landmarks_": np.ones((5, 8))}, "row 0 of landmarks_ sums to 8"),
        ({"landmarks_": np.full((5, 8), 0.125)}, "landmarks_ of a StreamEmbedding depend on each other"),
        ({"components_": np.eye(4)}, "components_ of a StreamEmbedding is not valid"),
        ({"lost_": np.nan}, "lost_ of a StreamEmbedding is not valid"),
    ],
)
def test_embeddings_that_are_not_valid(change, sentence):
    embedding = fit_embedding(SYSTEMS, 5)
    for key, value in change.items():
        setattr(embedding, key, value)
    with pytest.raises(SysbagsError, match=sentence):
        Writer().put(embedding)


@pytest.mark.parametrize("metric", ["alignment", "covariance", "normalized-covariance"])
@pytest.mark.parametrize("weight", ["scale", 0.5])
@pytest.mark.parametrize("classifier", [sysbags.NearestSystem, sysbags.NearestMean])
def test_classifiers_in_the_unit_variance_form(tmp_path, classifier, metric, weight):
    """The weights that were learnt are kept: they cannot be learnt again from centers or from what is new."""
    identifier = sysbags.SystemIdentifier(3, normal_form="unit-variance")
    systems = identifier.transform([system.samples for system in SYSTEMS])
    model = classifier(metric=metric, lambda_a=weight, lambda_mu=weight).fit(systems[:5], LABELS[:5])
    expected = flat(model.explain(systems))
    restored = there_and_back(tmp_path, model)
    np.testing.assert_array_equal(restored.weights_, model.weights_)
    np.testing.assert_array_equal(restored.scales_, [1.0])
    assert (restored.metric, restored.lambda_a) == (metric, weight)
    members = restored.systems_ if classifier is sysbags.NearestSystem else restored.centers_
    assert {system.normal_form for system in members} == {"unit-variance"}
    assert flat(restored) == flat(model)
    assert flat(restored.explain(systems)) == expected
    # A copy of a copy is the same again.
    assert flat(there_and_back(tmp_path, restored).explain(systems)) == expected


def test_a_pipeline_in_the_unit_variance_form(tmp_path):
    steps = [
        ("bags", bags.LocalBinaryPatterns()),
        ("systems", sysbags.SystemIdentifier(2, normal_form="unit-variance")),
        (
            "classify",
            sysbags.NearestMean(metric="normalized-covariance", lambda_a="scale", lambda_mu="scale"),
        ),
    ]
    model = Pipeline(steps).fit(CLIPS, LABELS)
    restored = there_and_back(tmp_path, model)
    assert restored.named_steps["systems"].normal_form == "unit-variance"
    assert flat(restored.decision_function(CLIPS)) == flat(model.decision_function(CLIPS))
    assert flat(restored.predict(CLIPS)) == flat(model.predict(CLIPS))


def test_systems(tmp_path):
    assert flat(there_and_back(tmp_path, SYSTEMS)) == flat(SYSTEMS)
    assert there_and_back(tmp_path, []) == []
    bare = sysbags.System(
        [[0.5]], [[-1.0, 7.0]], [[1.0]], [1.0], "linear", eigenvalues=[2.0], states=[[1.0], [2.0]], residual=1
    )
    restored = there_and_back(tmp_path, bare)
    assert flat(restored) == flat(bare)
    assert not any(
        array.flags.writeable or array.base is not None for array in (restored.samples, restored.states)
    )


def test_a_file_from_before_there_was_noise(tmp_path, monkeypatch):
    parts = files.parts

    def without_noise(obj):
        parameters, state = parts(obj)
        del state["noise"]
        return parameters, state

    monkeypatch.setattr(files, "parts", without_noise)
    old = dataclasses.replace(SYSTEMS[0], noise=None)
    assert flat(there_and_back(tmp_path, SYSTEMS[0])) == flat(old)


@pytest.mark.parametrize(
    "labels",
    [
        ["Wald", "Straße", "森", "🌊", "", "a\nb"],
        [3, -1, 2**62, 0, 7, 3],
        np.array([1, 2, 255, 1, 2, 255], dtype=np.uint8),
        np.array([1, 2, 3, 1, 2, 3], dtype=">i4"),
        [0.0, -1.0, 1e300, 1.0, 2.0, 3.0],
        [True, False, True, True, False, False],
        [b"sea", b"wood", b"sea", b"wood", b"sea", b"\xff"],
        np.array(["sea", "wood", "sea", "wood", "sea", "wood"], dtype=object),
        np.array([1, 2.5, 2**80, 1, 2, True], dtype=object),
    ],
    ids=["words", "int", "uint8", "big-endian", "float", "bool", "bytes", "objects", "numbers as objects"],
)
@pytest.mark.parametrize("classifier", [sysbags.NearestSystem, sysbags.NearestMean])
def test_labels_of_every_kind(tmp_path, labels, classifier):
    model = classifier().fit(SYSTEMS, labels)
    restored = there_and_back(tmp_path, model)
    dtype = model.classes_.dtype.newbyteorder("=")
    assert flat(restored.classes_) == flat(model.classes_.astype(dtype))
    assert flat(restored.predict(SYSTEMS)) == flat(model.predict(SYSTEMS).astype(dtype))


def test_numbers_of_numpy_and_tuples_and_mappings(tmp_path):
    bag = bags.LocalBinaryPatterns(np.int64(8), (1, 2), window=np.uint8(2), frames={"stride": np.int32(2)})
    restored = there_and_back(tmp_path, bag)
    assert type(restored.points) is int
    assert restored.radius == (1, 2)
    assert restored.frames == {"stride": 2}
    assert type(restored.frames["stride"]) is int
    assert flat(stream(restored)) == flat(stream(bag))
    assert there_and_back(tmp_path, sysbags.SystemIdentifier(margin=np.inf)).margin == np.inf
    assert type(there_and_back(tmp_path, sysbags.NearestMean(lambda_a=np.float32(0.5))).lambda_a) is float


def test_pipelines(tmp_path):
    inner = Pipeline([("systems", sysbags.SystemIdentifier(2)), ("nothing", "passthrough")])
    model = Pipeline([("inner", inner), ("classify", sysbags.NearestSystem())], memory="cache", verbose=True)
    restored = there_and_back(tmp_path, model)
    assert restored.memory is None
    assert restored.verbose is True
    assert [name for name, _ in restored.steps] == ["inner", "classify"]
    assert restored.named_steps["inner"].steps[1] == ("nothing", "passthrough")
    assert restored.get_params()["inner__systems__order"] == 2
    assert "cache" not in json.dumps(storage.describe(tmp_path / "model.sysbags"))


def test_another_process_classifies_the_same(tmp_path):
    """It has the files, and nothing of what made them."""
    words = bags.VisualWords(20, "sift", sampling="grid")
    models = {
        "lbp": pipeline(bags.LocalBinaryPatterns(), compress=12),
        "words": pipeline(words, lambda_mu=1.0),
        "both": pipeline(bags.BagUnion([bags.LocalBinaryPatterns(8, 2), words])),
    }
    for name, model in models.items():
        storage.save(tmp_path / name, model)
    np.save(tmp_path / "clips.npy", CLIPS)
    code = """
        import numpy as np, sysbags
        clips = list(np.load("clips.npy"))
        for name in ("lbp", "words", "both"):
            model = sysbags.load(name)
            np.savez(name, labels=model.predict(clips), values=model.decision_function(clips))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, cwd=tmp_path)
    for name, model in models.items():
        with np.load(tmp_path / f"{name}.npz") as outputs:
            assert flat(outputs["labels"]) == flat(model.predict(CLIPS))
            # Sums in another process may run in another order: round-off of numbers of order 1.
            np.testing.assert_allclose(
                outputs["values"], model.decision_function(CLIPS), rtol=1e-12, atol=1e-12
            )


def test_an_onnx_file_becomes_part_of_the_model(tmp_path):
    onnx = tmp_path / "tiny.onnx"
    onnx.write_bytes(onnx_model().SerializeToString())
    for path in (onnx, str(onnx)):
        bag = bags.DeepActivations(path, size=16)
        restored = there_and_back(tmp_path, bag)
        assert restored.model == onnx.read_bytes()
        assert flat(stream(restored)) == flat(stream(bag))
    assert str(tmp_path) not in (tmp_path / "model.sysbags").read_bytes().decode("latin-1")


def test_an_onnx_file_that_needs_another_is_refused(tmp_path):
    onnx = pytest.importorskip("onnx")
    onnx.save(onnx_model(), tmp_path / "two.onnx", save_as_external_data=True, size_threshold=0)
    with pytest.raises(ParameterError, match="in another file, but it must contain them"):
        storage.save(tmp_path / "model", bags.DeepActivations(tmp_path / "two.onnx"))
    with pytest.raises(FileError, match=r"cannot read the ONNX file .*none\.onnx: No such file"):
        storage.save(tmp_path / "model", bags.DeepActivations(tmp_path / "none.onnx"))


def test_the_named_network_is_kept_by_name(tmp_path):
    pytest.importorskip("onnxruntime")
    restored = there_and_back(tmp_path, bags.DeepActivations(layers=["_blocks.4"], grid=2))
    assert restored.model == "efficientnet-lite0"
    assert "onnxruntime" in storage.describe(tmp_path / "model.sysbags")["versions"]


def test_describe(tmp_path):
    steps = [("systems", sysbags.SystemIdentifier()), ("classify", EXAMPLES["NearestSystem"][0]())]
    storage.save(tmp_path / "model", Pipeline(steps))
    about = storage.describe(tmp_path / "model")
    assert about["format"] == storage.FORMAT
    assert about["kind"] == "Pipeline"
    assert about["versions"]["sysbags"] == sysbags.__version__
    assert {"python", "numpy", "scikit-learn"} < about["versions"].keys()
    assert about["arrays"]["steps/classify/systems_/5/alpha"] == {"shape": [24, 3], "dtype": "F64"}
    steps = about["object"]["Pipeline"]["parameters"]["steps"]["dict"]
    assert steps["systems"]["SystemIdentifier"]["parameters"]["order"] == 5
    assert steps["classify"]["NearestSystem"]["kept"]["labels_"]["objects"]["values"] == LABELS
    assert json.loads(json.dumps(about, allow_nan=False)) == about
    content = (tmp_path / "model").read_bytes().decode("latin-1")
    assert not any(word in content for word in (str(tmp_path), os.getcwd(), os.path.expanduser("~")))


def test_the_same_object_gives_the_same_file(tmp_path):
    for name in "ab":
        storage.save(tmp_path / name, SYSTEMS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_cannot_be_saved_gets_a_sentence(tmp_path):
    class Child(sysbags.NearestMean):
        pass

    search = GridSearchCV(sysbags.NearestMean(), {"lambda_a": [1.0]})
    loop = []
    loop.append(loop)
    for obj, message in [
        (3, "obj is of type int, but only a list of System and these can be saved: System, "),
        ([1, 2], "obj is a list of other objects, but only a list of System"),
        (tuple(SYSTEMS), "obj is of type tuple, but only"),
        (search, "obj is of type GridSearchCV, .* save its best_estimator_"),
        (Child(), "obj is of type Child, but only"),
        (sysbags.NearestMean, "obj is of type ABCMeta|obj is of type type"),
        (sysbags.SystemIdentifier(kernel=np.dot), "kernel is a function, .*: the kernel must be"),
        (sysbags.SystemIdentifier(kernel=lambda a, b: a @ b.T), "kernel is a function, .* 'chi2', "),
        (
            Pipeline([("one", sysbags.SystemIdentifier(kernel=np.dot))]),
            "steps/one/kernel is a function, which cannot be saved",
        ),
        (
            [sysbags.identify(SYSTEMS[0].samples, 2, lambda a, b: a @ b.T)],
            "0/kernel is a function, which cannot be saved",
        ),
        (
            sysbags.NearestMean(random_state=np.random.default_rng(0)),
            "random_state is of type Generator, which cannot be saved: use a whole number or None",
        ),
        (Pipeline([("scale", StandardScaler())]), "steps/scale is of type StandardScaler, .* it must be"),
        (Pipeline([("system", SYSTEMS[0])]), "step 'system' of a Pipeline is not an estimator"),
        (sysbags.NearestMean(lambda_a={1: 2}), "lambda_a is of type dict, which cannot be saved, but"),
        (sysbags.NearestMean(lambda_a=1j), "lambda_a is of type complex"),
        (sysbags.NearestMean(lambda_a=np.longdouble(1)), "lambda_a is of type longdouble"),
        (sysbags.NearestMean(lambda_a=np.ones(2, complex)), "lambda_a is of type ndarray"),
        (sysbags.NearestMean(lambda_a=loop), "nested too deeply to save"),
        (dataclasses.replace(SYSTEMS[0], explained=np.nan), "explained of a System is not valid"),
    ]:
        with pytest.raises(ParameterError, match=message):
            storage.save(tmp_path / "model", obj)
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_that_was_tampered_with_is_not_saved(tmp_path):
    model = EXAMPLES["NearestMean"][0]()
    model.centers_ = model.centers_[:1]
    with pytest.raises(ParameterError, match="labels_ of a NearestMean is not valid: it must be 'label K K'"):
        storage.save(tmp_path / "model", model)
    for weights in ("scale", np.array([[np.nan, 0.0]]), np.array([[0.25]]), np.ones((2, 2)), None):
        model = EXAMPLES["NearestMean"][0]()
        model.weights_ = weights
        with pytest.raises(ParameterError, match=r"weights_ of a NearestMean is not valid: .* 'float B 2'"):
            storage.save(tmp_path / "model", model)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model"
    storage.save(path, SYSTEMS[0])
    before = path.read_bytes()

    def stop(error):
        def save_file(arrays, name, metadata):
            with open(name, "wb") as file:
                file.write(b"half")
            raise error

        return save_file

    with pytest.raises(ParameterError):
        storage.save(path, 3)
    for error, raised in [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (safetensors.SafetensorError("I/O error: no space left"), FileError),
        (OSError(28, "No space left on device"), FileError),
    ]:
        monkeypatch.setattr("safetensors.numpy.save_file", stop(error))
        with pytest.raises(raised):
            storage.save(path, SYSTEMS)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


def test_a_full_disk(tmp_path):
    """A limit on the size of files stands for the disk."""
    code = """
        import resource, signal, numpy as np, sysbags
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        system = sysbags.System(np.eye(2), np.ones((2000, 1)), np.ones((2000, 2)), np.ones(2000))
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
        try:
            sysbags.save("model", system)
        except sysbags.SysbagsError as error:
            print(type(error).__name__, error)
    """
    (tmp_path / "model").write_text("old")
    run = [sys.executable, "-c", textwrap.dedent(code)]
    output = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert output.startswith("FileError cannot write model: ")
    assert "File too large" in output
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("model", "old")]


numbers = st.sampled_from(["?", "i1", "<i2", ">i4", "i8", "u1", ">u2", "u4", "u8", "f2", ">f4", "f8"])
shapes = hnp.array_shapes(min_dims=0, min_side=0, max_side=3)
arrays = numbers.flatmap(lambda dtype: hnp.arrays(dtype, shapes))
texts = hnp.arrays("U3", shapes, elements=st.text(max_size=3).map(lambda text: text.rstrip("\0")))
scalars = st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.floats() | st.text() | st.binary()
words = st.text(st.characters())  # also halves of surrogate pairs, slashes and NULs
trees = st.recursive(
    scalars | words | arrays | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(words | st.sampled_from(["a", "a/0", "float", "array"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def native(value):
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return np.array(value.ravel().tolist(), dtype="U").reshape(value.shape)  # as wide as need be
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, dict):
        return {key: native(item) for key, item in value.items()}
    return type(value)(map(native, value)) if isinstance(value, (list, tuple)) else value


@settings(max_examples=200, deadline=None)
@given(trees)
def test_any_tree_of_values(value):
    writer = Writer()
    tree = writer.put({"top": value})
    text = json.dumps(tree, allow_nan=False)
    content = safetensors.numpy.save(writer.arrays, {"sysbags": text})
    restored = Reader(safetensors.numpy.load(content)).get(json.loads(text))
    assert flat(restored["top"]) == flat(native(value))


def test_arrays_are_copies(tmp_path):
    weights = np.array([[1.0, 2.0], [3.0, 4.0]]).T
    bag = bags.ColourHistogram(weights[0])
    restored = there_and_back(tmp_path, bag)
    restored.bins[0] = 7.0
    assert weights[0, 0] == 1.0
    assert storage.load(tmp_path / "model.sysbags").bins.tolist() == [1.0, 3.0]
    assert there_and_back(tmp_path, bags.ColourHistogram(weights)).bins.flags.c_contiguous


def test_others_may_read_a_model_as_they_may_any_file(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    storage.save(tmp_path / "model", sysbags.SystemIdentifier())
    assert (tmp_path / "model").stat().st_mode == ordinary.stat().st_mode
