"""scikit-learn's own checks for every estimator; those that cannot apply are listed here with the reason."""

from __future__ import annotations

import inspect

import pytest
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import sysbags
from sysbags import bags, comparators

ESTIMATORS = [
    *(getattr(bags, name)() for name in bags.__all__ if name != "BagUnion"),
    bags.BagUnion([("lbp", bags.LocalBinaryPatterns()), ("words", bags.VisualWords())]),
    *(getattr(comparators, name)() for name in comparators.__all__),
    sysbags.StreamEmbedding(),
    sysbags.StreamClassifier(),
    sysbags.SystemIdentifier(),
    sysbags.NearestSystem(),
    sysbags.NearestMean(),
    sysbags.KernelRidgeClassifier(),
]

TABLE = "it gives a table of numbers, but the estimators take lists of videos, streams or systems"
SPARSE = "it gives sparse tables, but there are no tables at all"
# Checks that fail for every estimator.
ALWAYS = {
    "check_dict_unchanged": TABLE,
    "check_estimators_dtypes": TABLE,
    "check_estimators_pickle": TABLE,
    "check_f_contiguous_array_estimator": TABLE,
    "check_fit_idempotent": TABLE,
    "check_methods_sample_order_invariance": TABLE,
    "check_methods_subset_invariance": TABLE,
    "check_pipeline_consistency": TABLE,
    "check_estimator_sparse_tag": SPARSE,
    "check_fit_score_takes_y": TABLE,
}
# Checks that fail where `fit` looks at what it is given.
IN_FIT = {
    "check_dont_overwrite_parameters": TABLE,
    "check_estimators_fit_returns_self": TABLE,
    "check_estimators_overwrite_params": TABLE,
    "check_fit2d_1feature": TABLE,
    "check_fit2d_1sample": TABLE,
    "check_fit_check_is_fitted": TABLE,
    "check_positive_only_tag_during_fit": TABLE,
    "check_readonly_memmap_input": TABLE,
    "check_estimator_sparse_array": SPARSE,
    "check_estimator_sparse_matrix": SPARSE,
}
IN_TRANSFORM = {
    "check_transformer_general": TABLE,
    "check_transformer_preserve_dtypes": TABLE,
    "check_transformers_unfitted_stateless": TABLE,
}
IN_PREDICT = {
    "check_class_weight_classifiers": TABLE,
    "check_classifier_data_not_an_array": TABLE,
    "check_classifiers_classes": TABLE,
    "check_classifiers_one_label": TABLE,
    "check_classifiers_train": TABLE,
}


# It says of tables what they should be.
PASSED = {"StreamClassifier": {"check_classifiers_one_label", "check_estimator_sparse_tag"}}


def expected_failed_checks(estimator):
    """The reasons by the names of the checks that do not apply to an estimator."""
    reasons = {
        **ALWAYS,
        **(IN_FIT if estimator.requires_fit else {}),
        **(IN_TRANSFORM if hasattr(estimator, "transform") else {}),
        **(IN_PREDICT if hasattr(estimator, "predict") else {}),
    }
    return {name: why for name, why in reasons.items() if name not in PASSED.get(name_of(estimator), ())}


def checkable(estimator):
    """The same estimator, but for the tag that it takes no tables: with that tag only cloning is checked."""
    cls = type(estimator)

    def tags(self):
        result = cls.__sklearn_tags__(self)
        result.input_tags.two_d_array = True
        return result

    child = type(cls.__name__, (cls,), {"__init__": cls.__init__, "__sklearn_tags__": tags})
    return child(**estimator.get_params(deep=False))


def name_of(estimator):
    return type(estimator).__name__


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn(estimator):
    """Every check passes but those listed, and each of those fails: one that passes again leaves the list."""
    results = check_estimator(
        checkable(estimator), expected_failed_checks=expected_failed_checks(estimator), on_fail=None
    )
    assert any(result["status"] == "passed" for result in results)
    assert not {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not {r["check_name"] for r in results if r["status"] == "passed" and r["expected_to_fail"]}


def test_every_exception_is_a_check_of_scikit_learn():
    names = {
        check.func.__name__
        for estimator in map(checkable, ESTIMATORS)
        for _, check in estimator_checks_generator(estimator)
    }
    assert names >= {*ALWAYS, *IN_FIT, *IN_TRANSFORM, *IN_PREDICT}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_labels_are_called_y(estimator):
    for name in {"fit", "fit_transform", "score"} & {*dir(estimator)}:
        assert [*inspect.signature(getattr(estimator, name)).parameters][1] == "y", name


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_tags(estimator):
    tags = estimator.__sklearn_tags__()
    assert not tags.input_tags.two_d_array
    assert tags.requires_fit == estimator.requires_fit
