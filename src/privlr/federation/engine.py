"""The two classes that NVIDIA FLARE runs: a controller at the label holder, an executor at a party.

Requests go from a party to the label holder only, as single messages of FLARE's cell network,
and are sent again with the same bytes where no answer came. FLARE's own streams and reliable
messages keep a thread of their own for each message for 65 seconds, thousands in a run. Bodies
are plain bytes: FLARE passes arrays by reference, and a receiver then hangs when the owner is
gone.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import CellMessageAuthHeaderKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.defs import ReturnCode as CellCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply as cell_reply
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.fuel.f3.message import Message as CellMessage

from privlr.exceptions import FederationError
from privlr.federation.job import TASK, read_job
from privlr.federation.meeting import Meeting
from privlr.federation.messages import Message
from privlr.federation.roles import LabelHolder, run_party

__all__ = ["LabelHolderController", "PartyExecutor"]

_CHANNEL = "privlr"
_TOPIC = "message"
#: Seconds between two attempts to send.
_PAUSE = 0.5
#: Seconds for FLARE to wind a job down before the process ends itself.
_GRACE = 30.0


def _kit(context: FLContext) -> Path:
    return Path(context.get_engine().get_workspace().get_root_dir())


class LabelHolderController(Controller):
    """Runs the label holder's loop and hands it the parties' requests.

    Parameters
    ----------
    job : dict
        Constants of the run, from the job's JSON.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(task_check_period=0.1)
        self._job = read_job(job)
        self._holder: LabelHolder | None = None

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Open for requests.

        Parameters
        ----------
        fl_ctx : FLContext
            FLARE's context.
        """
        self._holder = LabelHolder(self._job, _kit(fl_ctx))
        cell = fl_ctx.get_engine().get_cell().core_cell
        cell.register_request_cb(_CHANNEL, _TOPIC, self._receive)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Start the parties and run all rounds.

        Parameters
        ----------
        abort_signal : Signal
            Set where the job is to end.
        fl_ctx : FLContext
            FLARE's context.
        """
        assert self._holder is not None
        meeting = self._holder.meeting
        task = Task(name=TASK, data=Shareable())
        self.broadcast(task, fl_ctx, list(meeting.names), min_responses=len(meeting.names))
        over = threading.Event()
        threading.Thread(target=_watch, args=(abort_signal, over, meeting), daemon=True).start()
        try:
            facts = self._holder.run()
            self.log_info(fl_ctx, f"run {self._job.run} finished: {facts}")
            deadline = time.monotonic() + _GRACE
            while self.get_num_standing_tasks() and time.monotonic() < deadline:
                time.sleep(0.05)
        except FederationError as error:
            # The parties ask for the reason before FLARE takes the job down.
            time.sleep(1.0)
            self.system_panic(f"run {self._job.run} failed: {error}", fl_ctx)
        finally:
            over.set()

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Let go of parties that still wait.

        Parameters
        ----------
        fl_ctx : FLContext
            FLARE's context.
        """
        if self._holder is not None:
            self._holder.meeting.fail("the label holder has stopped")

    def _receive(self, request: CellMessage) -> CellMessage:
        assert self._holder is not None
        return cell_reply(CellCode.OK, body=self._holder.receive(_sender(request), request.payload))


class PartyExecutor(Executor):
    """Runs a party.

    Parameters
    ----------
    job : dict
        Constants of the run, from the job's JSON.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self._job = read_job(job)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Take part in a run, from its first message to its last.

        Parameters
        ----------
        task_name : str
            The only task of the job.
        shareable : Shareable
            Empty.
        fl_ctx : FLContext
            FLARE's context.
        abort_signal : Signal
            Set where the job is to end.

        Returns
        -------
        Shareable
            A return code.
        """
        name = fl_ctx.get_identity_name()
        try:
            send = partial(_send, fl_ctx, abort_signal)
            facts = run_party(self._job, name, _kit(fl_ctx), send)
        except FederationError as error:
            self.log_error(fl_ctx, f"run {self._job.run} failed: {error}")
            # FLARE keeps a job's process alive while its server is away.
            timer = threading.Timer(_GRACE, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        self.log_info(fl_ctx, f"run {self._job.run} finished: {facts}")
        return make_reply(ReturnCode.OK)


def _sender(request: CellMessage) -> str:
    """The site that a message comes from.

    FLARE's server process has let it pass only because its token is signed for this name, and
    gives a site that token only for the certificate of this name.
    """
    name = str(request.get_header(CellMessageAuthHeaderKey.CLIENT_NAME))
    origin = FQCN.split(request.get_header(MessageHeaderKey.ORIGIN))[0]
    return name if name == origin else f"{origin}, with the token of {name},"


def _send(context: FLContext, abort: Signal, message: Message, timeout: float) -> Message:
    cell = context.get_engine().get_cell().core_cell
    label_holder = FQCN.join([FQCN.ROOT_SERVER, context.get_job_id()])
    body, deadline = message.encode(), time.monotonic() + timeout
    while True:
        reply = cell.send_request(
            channel=_CHANNEL,
            topic=_TOPIC,
            target=label_holder,
            request=new_cell_message({}, body),
            timeout=max(min(timeout / 4, deadline - time.monotonic()), 1.0),
        )
        code = reply.get_header(MessageHeaderKey.RETURN_CODE)
        if code == CellCode.OK:
            return Message.decode(reply.payload)
        if abort.triggered or time.monotonic() + _PAUSE > deadline:
            raise FederationError(
                f"round {message.round}: no answer to {message.kind.name} from the label "
                f"holder within {timeout:g} s ({code})"
            )
        time.sleep(_PAUSE)


def _watch(abort: Signal, over: threading.Event, meeting: Meeting) -> None:
    while not over.wait(0.5):
        if abort.triggered:
            meeting.abort()
            return
