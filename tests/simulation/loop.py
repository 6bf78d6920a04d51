"""The event loop of a story: trio's own, without what no story needs.

A story has no instruments, no external I/O and no `wait_all_tasks_blocked`: trio's loop makes about ten
checks for these per pass.  Tasks run in the order of trio's deterministic mode: in the order they were
spawned, shuffled by its seeded generator.  A task that lets others run when there are none goes on at once
(`checkpoint`): that is a third of all passes.
"""

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import trio
import trio._core._run
from outcome import Error, Value
from trio._core._ki import enable_ki_protection
from trio._core._run import GLOBAL_RUN_CONTEXT
from trio._core._traps import (
    CancelShieldedCheckpoint,
    PermanentlyDetachCoroutineObject,
    WaitTaskRescheduled,
    cancel_shielded_checkpoint,
)

# Polling for I/O and signals is a system call, so it happens only once in so many passes.
POLL_EVERY = 256


class _Turn:
    """What can run now: the tasks left of this pass of the loop, and those of the next one."""

    batch: Sequence[Any] = ()
    runq: Collection[Any] = ()
    # Whether a deadline has passed that the loop has not looked at yet.
    is_due: Callable[[], bool] = staticmethod(lambda: False)


_turn = _Turn()


async def checkpoint() -> None:
    """Let other tasks run, as `trio.lowlevel.cancel_shielded_checkpoint` does, if there are any."""
    if _turn.batch or _turn.runq or _turn.is_due():
        await cancel_shielded_checkpoint()


class _Nothing:
    """What most tasks are resumed with: an outcome without a value."""

    def unwrap(self) -> None:
        pass


_NOTHING = _Nothing()


def _reschedule(runner: Any, task: Any, next_send: Any = trio._core._run._NO_SEND) -> None:
    """Do as `Runner.reschedule`, without a new outcome for each task."""
    task._next_send_fn = task.coro.send
    task._next_send = _NOTHING if next_send is trio._core._run._NO_SEND else next_send
    task._abort_func = task.custom_sleep_data = None
    runner.runq.append(task)


class _DeadlineChange:
    """Does as `CancelScope._might_change_registered_deadline`, which is a generator."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        scope = self._scope
        old, new = scope._registered_deadline, scope._deadline
        if scope._cancel_status is None or scope._cancel_called:
            new = math.inf
        if old != new:
            scope._registered_deadline = new
            deadlines = GLOBAL_RUN_CONTEXT.runner.deadlines
            if old != math.inf:
                deadlines.remove(old, scope)
            if new != math.inf:
                deadlines.add(new, scope)


# What stories replace in trio: holder, name, replacement.
REPLACEMENTS: list[tuple[Any, str, Any]] = [
    (trio.lowlevel, "cancel_shielded_checkpoint", checkpoint),
    (trio._core._run, "cancel_shielded_checkpoint", checkpoint),
    (trio._core._run.Runner, "reschedule", _reschedule),
    (trio.CancelScope, "_might_change_registered_deadline", lambda scope: _DeadlineChange(scope)),
]


@enable_ki_protection
def run(clock: trio.abc.Clock, story: Callable[[], Awaitable[Any]]) -> Any:
    """Run as `trio.run` does, with this clock."""
    global _turn
    outer, _turn = _turn, _Turn()
    runner = trio._core._run.setup_runner(clock, (), False, True)
    runner.entry_queue.wakeup.wakeup_on_signals()
    try:
        clock.start_clock()
        runner.init_task = runner.spawn_impl(runner.init, (story, ()), None, "<init>", system_task=True)
        _run_until_done(runner, clock)
    finally:
        _turn = outer
        runner.close()
        GLOBAL_RUN_CONTEXT.__dict__.clear()
    if runner.ki_pending:
        raise KeyboardInterrupt
    assert runner.main_task_outcome is not None
    return runner.main_task_outcome.unwrap()


def _run_until_done(runner: Any, clock: trio.abc.Clock) -> None:
    runq, tasks, deadlines = runner.runq, runner.tasks, runner.deadlines
    current_time, reschedule = clock.current_time, runner.reschedule
    shuffle, turns = trio._core._run._r.shuffle, 0

    def is_due() -> bool:
        return bool(deadlines._heap) and deadlines._heap[0][0] <= current_time()

    turn = _turn
    turn.runq, turn.is_due = runq, is_due
    while tasks:
        turns += 1
        timeout = 0.0 if runq else clock.deadline_to_sleep_time(deadlines.next_deadline())
        if timeout or not turns % POLL_EVERY:
            # The only external event is an interrupt (Ctrl-C).
            runner.io_manager.process_events(runner.io_manager.get_events(min(timeout, 86_400.0)))
        if is_due():
            deadlines.expire(current_time())
        batch = turn.batch = list(runq)
        runq.clear()
        if len(batch) > 1:
            batch.sort(key=_spawn_order)
            shuffle(batch)
        while batch:
            task = GLOBAL_RUN_CONTEXT.task = batch.pop()
            send, value = task._next_send_fn, task._next_send
            task._next_send_fn = task._next_send = None
            ended: Any = None
            try:
                message = task.context.run(send, value)
            except StopIteration as stop:
                ended = Value(stop.value)
            except BaseException as error:
                ended = Error(error)
            if ended is not None:
                runner.task_exited(task, ended)
            elif message is CancelShieldedCheckpoint:
                reschedule(task)
            elif type(message) is WaitTaskRescheduled:
                task._abort_func = message.abort_func
                if runner.ki_pending and task is runner.main_task:
                    task._attempt_delivery_of_pending_ki()
                if task._cancel_status.effectively_cancelled:
                    task._attempt_delivery_of_any_pending_cancel()
            else:
                assert type(message) is PermanentlyDetachCoroutineObject
                runner.task_exited(task, message.final_outcome)
            message = send = value = ended = None
            del GLOBAL_RUN_CONTEXT.task, task


def _spawn_order(task: Any) -> Any:
    return task._counter
