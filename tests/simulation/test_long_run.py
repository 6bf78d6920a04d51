"""Long runs: results are written to the file, also those of a process that dies."""

import os
from pathlib import Path

from tests.simulation import long_run, simulation
from tests.simulation.story import Plan


def _run_story(seed: int) -> simulation.Outcome:
    return simulation.run(Plan.of(seed, 3))


def test_a_run_goes_on_where_its_results_end(tmp_path: Path) -> None:
    file = tmp_path / "results"
    long_run.run(long_run.Results(file), 70, 2, jobs=1, seconds=600, run_story=_run_story)
    done = long_run.run(long_run.Results(file), 69, 4, jobs=2, seconds=600, run_story=_run_story)
    assert done.stories == 2, "two of the four are in the file"
    results = long_run.Results(file)
    assert results.total.stories == 4 and results.seen == {69, 70, 71, 72}
    assert f"| stories with code {long_run.code_hash()} | 4 |" in results.table()


def test_a_story_that_ends_its_process_is_red_and_the_others_go_on(tmp_path: Path) -> None:
    def run_story(seed: int) -> simulation.Outcome:
        if seed == 71:
            os._exit(9)
        return _run_story(seed)

    results = long_run.Results(tmp_path / "results")
    done = long_run.run(results, 70, 3, jobs=1, seconds=600, run_story=run_story)
    assert done.stories == 3 and done.seeds == [71]
    assert long_run.Results(tmp_path / "results").reds == [{"seed": 71, "failures": ["the process died: 9"]}]
