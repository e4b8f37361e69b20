"""The benchmark of SKAB, on files that are generated as those."""

from __future__ import annotations

import numpy as np
from benchmarks.watching import skab


def write(path, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((600, 8))
    numbers[500:560] += 6.0
    anomaly = np.arange(600) // 60 == 8  # 480 to 540
    anomaly[500:560] = True
    lines = [
        f"2020-03-09 10:{t // 60:02}:{t % 60:02};"
        + ";".join(f"{x:.6f}" for x in row)
        + f";{float(label)};0.0"
        for t, (row, label) in enumerate(zip(numbers, anomaly, strict=True))
    ]
    head = "datetime;" + ";".join(f"c{k}" for k in range(8)) + ";anomaly;changepoint"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *lines]))
    return anomaly[400:]


def test_the_table(tmp_path):
    true = write(tmp_path / "valve1" / "0.csv", 0)
    (tmp_path / "anomaly-free").mkdir()
    (tmp_path / "anomaly-free" / "anomaly-free.csv").write_text("left out")
    head, _, *lines = skab.rows(tmp_path)
    assert head.startswith("| method, 1 files, 200 rows |")
    cells = {line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in lines}
    assert list(cells) == ["sysbags", "T-squared + Q", "IsolationForest"]
    # Six standard deviations in each channel are found by T-squared but at the borders of its running median.
    found = skab.t_squared_and_q(tmp_path / "valve1" / "0.csv")
    assert found[104:158].all()
    np.testing.assert_array_equal(skab._labels(tmp_path / "valve1" / "0.csv"), true)
    f1, false, missed = skab.rates(true, found)
    assert cells["T-squared + Q"][:3] == [f"{f1:.2f}", f"{100 * false:.1f}", f"{100 * missed:.1f}"]
    assert false < 0.1
