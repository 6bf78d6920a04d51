"""Tasks on files, their assignments to users, and the request bodies that create and change them."""

from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import Model, RequestTimestamp, Timestamp, UpdateBody, UserMini

Action = Literal["review", "complete"]
CompletionRule = Literal["all_assignees", "any_assignee"]
State = Literal["incomplete", "completed", "approved", "rejected"]

TaskMessage = Annotated[str, pydantic.Field(max_length=10_000)]

# The possible states of an assignment, by the action of its task.
STATES: dict[str, tuple[str, ...]] = {
    "review": ("incomplete", "approved", "rejected"),
    "complete": ("incomplete", "completed"),
}


class TaskAssignment(Model):
    """The assignment of a task to a user."""

    type: Literal["task_assignment"] = "task_assignment"
    id: str
    item: dict[str, Any] | None = None  # file, mini; null: the caller does not see it, or it is in the trash
    assigned_to: UserMini | None = None
    message: str | None = None
    completed_at: Timestamp | None = None
    assigned_at: Timestamp | None = None
    reminded_at: Timestamp | None = None
    resolution_state: str | None = None
    assigned_by: UserMini | None = None


class TaskAssignments(Model):
    """All assignments of a task."""

    total_count: int = 0
    entries: list[TaskAssignment] = pydantic.Field(default_factory=list)


class FileTask(Model):
    type: Literal["task"] = "task"
    id: str
    item: dict[str, Any] | None = None  # as in an assignment
    due_at: Timestamp | None = None
    action: str | None = None
    message: str | None = None
    task_assignment_collection: TaskAssignments | None = None
    is_completed: bool | None = None
    created_by: UserMini | None = None
    created_at: Timestamp | None = None
    completion_rule: str | None = None


class Tasks(Model):
    """All tasks of a file."""

    total_count: int = 0
    entries: list[FileTask] = pydantic.Field(default_factory=list)


class TaskFile(Model):
    type: Literal["file"] = "file"
    id: str


class UpdateTask(UpdateBody):
    """An update of a task; unset fields are left unchanged, a null `due_at` removes the due date."""

    action: Action | None = None
    message: TaskMessage | None = None
    due_at: RequestTimestamp | None = None
    completion_rule: CompletionRule | None = None


class NewTask(UpdateTask):
    model_config = pydantic.ConfigDict(extra="ignore")

    item: TaskFile


class AssignedTask(Model):
    type: Literal["task"] = "task"
    id: str


class Assignee(Model):
    """A user, by id or by login."""

    id: str | None = None
    login: str | None = None


class NewAssignment(Model):
    task: AssignedTask
    assign_to: Assignee


class UpdateAssignment(UpdateBody):
    message: TaskMessage | None = None
    resolution_state: State | None = None
