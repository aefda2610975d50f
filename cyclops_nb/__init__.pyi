from cyclops_nb._version import __version__ as __version__
from cyclops_nb.agent import Agent as Agent
from cyclops_nb.config import (
    AgentConfig as AgentConfig,
)
from cyclops_nb.config import (
    Compaction as Compaction,
)
from cyclops_nb.display.branches import (
    Comparison as Comparison,
)
from cyclops_nb.display.branches import (
    compare as compare,
)
from cyclops_nb.display.explore import explore as explore
from cyclops_nb.display.explorer import Explorer as Explorer
from cyclops_nb.display.family_tree import (
    SessionTree as SessionTree,
)
from cyclops_nb.display.family_tree import (
    tree as tree,
)
from cyclops_nb.engine.middleware import Middleware as Middleware
from cyclops_nb.errors import (
    ConfigError as ConfigError,
)
from cyclops_nb.errors import (
    ContextOverflowError as ContextOverflowError,
)
from cyclops_nb.errors import (
    CyclopsError as CyclopsError,
)
from cyclops_nb.errors import (
    InputError as InputError,
)
from cyclops_nb.errors import (
    MaxIterationsError as MaxIterationsError,
)
from cyclops_nb.errors import (
    MissingExtraError as MissingExtraError,
)
from cyclops_nb.errors import (
    ModelConnectionError as ModelConnectionError,
)
from cyclops_nb.errors import (
    ModelError as ModelError,
)
from cyclops_nb.errors import (
    ModelTimeoutError as ModelTimeoutError,
)
from cyclops_nb.errors import (
    OutputError as OutputError,
)
from cyclops_nb.errors import (
    RateLimitError as RateLimitError,
)
from cyclops_nb.errors import (
    SessionBusyError as SessionBusyError,
)
from cyclops_nb.errors import (
    SessionConflictError as SessionConflictError,
)
from cyclops_nb.errors import (
    SessionFormatError as SessionFormatError,
)
from cyclops_nb.errors import (
    SessionNotFoundError as SessionNotFoundError,
)
from cyclops_nb.errors import (
    TranscriptError as TranscriptError,
)
from cyclops_nb.events import (
    AnyEvent as AnyEvent,
)
from cyclops_nb.events import (
    Compacted as Compacted,
)
from cyclops_nb.events import (
    Event as Event,
)
from cyclops_nb.events import (
    ReasoningDelta as ReasoningDelta,
)
from cyclops_nb.events import (
    RequestRetried as RequestRetried,
)
from cyclops_nb.events import (
    RunFinished as RunFinished,
)
from cyclops_nb.events import (
    RunStarted as RunStarted,
)
from cyclops_nb.events import (
    StepFinished as StepFinished,
)
from cyclops_nb.events import (
    StepStarted as StepStarted,
)
from cyclops_nb.events import (
    TextDelta as TextDelta,
)
from cyclops_nb.events import (
    ToolCallDelta as ToolCallDelta,
)
from cyclops_nb.events import (
    ToolCallReady as ToolCallReady,
)
from cyclops_nb.events import (
    ToolCallStarted as ToolCallStarted,
)
from cyclops_nb.events import (
    ToolResult as ToolResult,
)
from cyclops_nb.frames import (
    UsageTable as UsageTable,
)
from cyclops_nb.frames import (
    messages_frame as messages_frame,
)
from cyclops_nb.frames import (
    runs_frame as runs_frame,
)
from cyclops_nb.frames import (
    steps_frame as steps_frame,
)
from cyclops_nb.frames import (
    tool_calls_frame as tool_calls_frame,
)
from cyclops_nb.frames import (
    usage_table as usage_table,
)
from cyclops_nb.handle import RunHandle as RunHandle
from cyclops_nb.interop.export import export_notebook as export_notebook
from cyclops_nb.interop.strip import Stripped as Stripped
from cyclops_nb.interop.strip import strip as strip
from cyclops_nb.interop.working_notebook import FoundSessions as FoundSessions
from cyclops_nb.interop.working_notebook import sessions_in_notebook as sessions_in_notebook
from cyclops_nb.messages import (
    AnyMessage as AnyMessage,
)
from cyclops_nb.messages import (
    AssistantMessage as AssistantMessage,
)
from cyclops_nb.messages import (
    FilePart as FilePart,
)
from cyclops_nb.messages import (
    ImagePart as ImagePart,
)
from cyclops_nb.messages import (
    Message as Message,
)
from cyclops_nb.messages import (
    Part as Part,
)
from cyclops_nb.messages import (
    ReasoningPart as ReasoningPart,
)
from cyclops_nb.messages import (
    SummaryMessage as SummaryMessage,
)
from cyclops_nb.messages import (
    TextPart as TextPart,
)
from cyclops_nb.messages import (
    ToolCall as ToolCall,
)
from cyclops_nb.messages import (
    ToolMessage as ToolMessage,
)
from cyclops_nb.messages import (
    UserMessage as UserMessage,
)
from cyclops_nb.middleware.approval import Approval as Approval
from cyclops_nb.middleware.redaction import Redaction as Redaction
from cyclops_nb.models.base import ModelRequest as ModelRequest
from cyclops_nb.response import (
    AgentResponse as AgentResponse,
)
from cyclops_nb.response import (
    Answer as Answer,
)
from cyclops_nb.runs import Run as Run
from cyclops_nb.session import Session as Session
from cyclops_nb.stores.base import (
    SessionInfo as SessionInfo,
)
from cyclops_nb.stores.base import (
    SessionStore as SessionStore,
)
from cyclops_nb.stores.file import FileSessionStore as FileSessionStore
from cyclops_nb.stores.memory import InMemorySessionStore as InMemorySessionStore
from cyclops_nb.stores.notebook import NotebookSessionStore as NotebookSessionStore
from cyclops_nb.tools import (
    RunContext as RunContext,
)
from cyclops_nb.tools import (
    Tool as Tool,
)
from cyclops_nb.tools import (
    tool as tool,
)
from cyclops_nb.usage import Usage as Usage

def load_ipython_extension(ipython: object) -> None: ...
def unload_ipython_extension(ipython: object) -> None: ...
