"""The loop of a story: trio's own, without what no story has.

Nobody instruments a story, nothing comes from outside and nobody waits until all are blocked: for these,
trio's loop asks some ten questions a turn.  Tasks are taken up in the order of trio's loop for tests: as they
were begun, shuffled by its seeded generator.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio._core._run
from outcome import Error, Value
from trio._core._ki import enable_ki_protection
from trio._core._run import GLOBAL_RUN_CONTEXT
from trio._core._traps import CancelShieldedCheckpoint, PermanentlyDetachCoroutineObject, WaitTaskRescheduled

# To look whether a file or a signal has come is a system call; so many turns of the loop do without.
LOOK_EVERY = 256


@enable_ki_protection
def run(clock: trio.abc.Clock, story: Callable[[], Awaitable[Any]]) -> Any:
    """As `trio.run`, with this clock."""
    runner = trio._core._run.setup_runner(clock, (), False, True)
    runner.entry_queue.wakeup.wakeup_on_signals()
    try:
        clock.start_clock()
        runner.init_task = runner.spawn_impl(runner.init, (story, ()), None, "<init>", system_task=True)
        _turn(runner, clock)
    finally:
        runner.close()
        GLOBAL_RUN_CONTEXT.__dict__.clear()
    if runner.ki_pending:
        raise KeyboardInterrupt
    assert runner.main_task_outcome is not None
    return runner.main_task_outcome.unwrap()


def _turn(runner: Any, clock: trio.abc.Clock) -> None:
    runq, tasks, deadlines = runner.runq, runner.tasks, runner.deadlines
    current_time, reschedule = clock.current_time, runner.reschedule
    shuffle, turns = trio._core._run._r.shuffle, 0
    while tasks:
        turns += 1
        timeout = 0.0 if runq else clock.deadline_to_sleep_time(deadlines.next_deadline())
        if timeout or not turns % LOOK_EVERY:
            # Nothing comes from outside, but for somebody who wants the story to end.
            runner.io_manager.process_events(runner.io_manager.get_events(min(timeout, 86_400.0)))
        if deadlines._heap and deadlines._heap[0][0] <= (now := current_time()):
            deadlines.expire(now)
        batch = list(runq)
        runq.clear()
        if len(batch) > 1:
            batch.sort(key=_began)
            shuffle(batch)
        while batch:
            task = GLOBAL_RUN_CONTEXT.task = batch.pop()
            send, value = task._next_send_fn, task._next_send
            task._next_send_fn = task._next_send = None
            ended: Any = None
            try:
                said = task.context.run(send, value)
            except StopIteration as stop:
                ended = Value(stop.value)
            except BaseException as error:
                ended = Error(error)
            if ended is not None:
                runner.task_exited(task, ended)
            elif said is CancelShieldedCheckpoint:
                reschedule(task)
            elif type(said) is WaitTaskRescheduled:
                task._abort_func = said.abort_func
                if runner.ki_pending and task is runner.main_task:
                    task._attempt_delivery_of_pending_ki()
                if task._cancel_status.effectively_cancelled:
                    task._attempt_delivery_of_any_pending_cancel()
            else:
                assert type(said) is PermanentlyDetachCoroutineObject
                runner.task_exited(task, said.final_outcome)
            said = send = value = ended = None
            del GLOBAL_RUN_CONTEXT.task, task


def _began(task: Any) -> Any:
    return task._counter
