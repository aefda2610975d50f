"""What a front end would show of a kernel's messages: outputs of cells, their updates, and widgets."""

from __future__ import annotations

import time

from pages import Page

SECONDS = 60
WIDGET = "application/vnd.jupyter.widget-view+json"
KEPT = ("display_data", "execute_result")


class FrontEnd:
    """One that listens to a kernel of `kernels`."""

    def __init__(self, kernel):
        self._client = kernel.client
        self._places = {}
        self.outputs = {}
        """By cell: bundles, and texts that were printed."""
        self.widgets = {}
        """By id: the state of a widget that is there."""
        self.errors = []
        self.updates = 0
        """How many messages changed something that was there."""
        self.updating = []
        """The cells that updates of outputs say they belong to; not where the outputs are."""
        self.messages = 0
        self.bytes = 0

    def send(self, code, **settings):
        """Run a cell and return its id; its outputs come with the next wait."""
        cell = self._client.execute(code, **settings)
        self.outputs[cell] = []
        return cell

    def wait_until(self, condition):
        """Take messages until something is so."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited too long; there is {str(self.outputs)[-2000:]} {self.errors}"
            if self._client.iopub_channel.socket.poll(500):
                frames = self._client.iopub_channel.socket.recv_multipart()
                self.messages += 1
                self.bytes += sum(map(len, frames))
                self._take(self._client.session.deserialize(self._client.session.feed_identities(frames)[1]))

    def run(self, code):
        """Run a cell to its end."""
        cell = self.send(code)
        ended = []
        take = self._take

        def watch(message):
            take(message)
            if message["parent_header"].get("msg_id") == cell and message["content"].get("execution_state") == "idle":
                ended.append(True)

        self._take = watch
        self.wait_until(lambda: ended)
        self._take = take
        return cell

    def _take(self, message):
        kind, content, cell = message["msg_type"], message["content"], message["parent_header"].get("msg_id")
        match kind:
            case "display_data" | "execute_result":
                display_id = content.get("transient", {}).get("display_id")
                if display_id:
                    self._places[display_id] = (cell, len(self.outputs[cell]))
                self.outputs[cell].append(content["data"])
            case "update_display_data":
                self.updating.append(cell)
                cell, place = self._places[content["transient"]["display_id"]]
                self.outputs[cell][place] = content["data"]
                self.updates += 1
            case "stream":
                outputs = self.outputs.setdefault(cell, [])
                begun = outputs.pop() if outputs and isinstance(outputs[-1], str) else ""
                outputs.append(begun + content["text"])  # what is printed may come in pieces
            case "error":
                self.errors.append(f"{content['ename']}: {content['evalue']}")
            case "comm_open":
                self.widgets[content["comm_id"]] = dict(content["data"]["state"])
            case "comm_msg" if content["comm_id"] in self.widgets:
                self.widgets[content["comm_id"]] |= content["data"]["state"]
                self.updates += 1
            case "comm_close":
                self.widgets.pop(content["comm_id"], None)

    def parts(self, cell):
        """Return the HTML of the first output of a cell: of its widgets, in their order, while it has any."""
        if not self.outputs[cell]:
            return []
        bundle = self.outputs[cell][0]
        if WIDGET not in bundle:
            return [bundle["text/html"]]
        return list(self._html(bundle[WIDGET]["model_id"]))

    def _html(self, model):
        state = self.widgets[model]
        layout = self.widgets.get(state["layout"].removeprefix("IPY_MODEL_"), {})
        if layout.get("display") == "none":
            return
        if "value" in state:
            yield state["value"]
        for child in state.get("children", ()):
            yield from self._html(child.removeprefix("IPY_MODEL_"))

    def shown(self, cell):
        """Return the text of the first output of a cell."""
        return " ".join(Page(str(html)).text for html in self.parts(cell))

    def buttons(self):
        """Return the ids of the buttons that are there, the oldest first."""
        return [model for model, state in self.widgets.items() if state["_model_name"] == "ButtonModel"]

    def click(self, button, subshell=None):
        """Click on a button, which may be gone by now; for another thread of the kernel to hear, if there is one."""
        content = {"comm_id": button, "data": {"method": "custom", "content": {"event": "click"}}}
        message = self._client.session.msg("comm_msg", content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._client.shell_channel.send(message)

    def change(self, widget, **state):
        """Change a widget, as who types or chooses in it does."""
        content = {"comm_id": widget, "data": {"method": "update", "state": state, "buffer_paths": []}}
        self._client.shell_channel.send(self._client.session.msg("comm_msg", content))

    def find(self, kind, **state):
        """Return the ids of the widgets of a kind that have such a state, the oldest first."""
        return [
            model
            for model, known in self.widgets.items()
            if known["_model_name"] == f"{kind}Model" and state.items() <= known.items()
        ]

    def subshell(self):
        """Begin another thread of the kernel that hears messages, as JupyterLab does for widgets, and return its id."""
        channel = self._client.control_channel
        channel.send(self._client.session.msg("create_subshell_request", {}))
        return channel.get_msg(timeout=SECONDS)["content"]["subshell_id"]

    def is_over(self, cell):
        """Say whether the first output of a cell needs no kernel any more."""
        return bool(self.outputs[cell]) and WIDGET not in self.outputs[cell][0]
