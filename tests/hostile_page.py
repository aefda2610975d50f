"""A page of JupyterLab in which outputs are shown by the hundred, and everything is noticed that one of them does."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import nbformat
from browser import SECONDS, Lab, chromium, show_notebook
from pages import ATTRIBUTES, PLAIN

_NUMBER = re.compile(r"(?<!\d)[1-9]\d{6}(?!\d)")
_ADDED = {"target", "data-jupyter-id", "dir", "data-markdown-id", "lang"}
"""Attributes that JupyterLab adds."""

CANARY_MARK = "struck('canary')"
CANARY = f'<img src="x:x" onerror="{CANARY_MARK}">'
"""Is shown with all outputs, and must be noticed."""
WATCH = """
() => {
  window.struckList = [];
  if (window !== window.top) return;
  addEventListener("click", (event) => {   // behind all others: what would open is looked at, not opened
    const link = event.target.closest?.("a[href]");
    if (!link || window.follows) return;
    event.preventDefault();
    if (link.getAttribute("href").startsWith("#")) return;
    const isPlain = link.closest(".jp-RenderedText");   // JupyterLab makes links of what looks like an address
    const isSafe = (isPlain || /^(https?|mailto):$/.test(link.protocol)) && link.target === "_blank" && /noopener/.test(link.rel);
    if (!isSafe) window.struck(`by a click on ${link.outerHTML}`);
  });
}
"""
SETUP = """
([elements, attributes]) => {
  const book = jupyterapp.shell.currentWidget.content;
  const area = book.widgets[1].outputArea;
  const page = {book, area, elements: new Set(elements), attributes: new Set(attributes)};
  window.harness = page;
  jupyterapp.commands.addCommand("struck:run", {execute: (given) => window.struck(given.number)});

  // a form may have taken the names of these
  const names = (node) => Element.prototype.getAttributeNames.call(node);
  const value = (node, name) => Element.prototype.getAttribute.call(node, name);

  page.render = async (outputs, isObeyed) => {
    const made = outputs.map(([kind, source]) => {
      const renderer = book.rendermime.createRenderer(kind);
      area.layout.addWidget(renderer);
      const trusted = isObeyed ?? kind !== "text/markdown";
      return renderer.renderModel(book.rendermime.createModel({data: {[kind]: source}, trusted}));
    });
    await Promise.all(made);
    await book.rendermime.latexTypesetter?.typeset(area.node);
    await page.frames();
  };
  page.frames = async () => {
    for (let turn = 0; turn < 2; turn++) await new Promise(requestAnimationFrame);
    await new Promise((resolve) => setTimeout(resolve));
  };
  page.clear = async () => {
    for (const widget of [...area.layout.widgets].reverse()) widget.dispose();
    await page.frames();
  };

  page.outside = () => {
    const facts = {
      title: document.title, base: document.baseURI, forms: document.forms.length, body: typeof document.body.nodeName,
      children: document.body.children.length, theme: document.body.dataset.jpThemeName,
      functions: typeof document.getElementById + typeof document.cookie + String(document.currentScript),
      cookie: document.cookie.includes("struck"),
    };
    for (const name of ["#jp-top-panel", "#jp-menu-panel", ".jp-NotebookPanel-toolbar", "#jp-main-statusbar", ".neighbour"]) {
      const node = document.querySelector(name), style = getComputedStyle(node), box = node.getBoundingClientRect();
      const looks = ["display", "visibility", "opacity", "color", "backgroundImage", "position", "cursor", "fontFamily",
                     "animationName", "--struck"].map((key) => style[key] ?? style.getPropertyValue(key));
      const above = [0.1, 0.5, 0.9].map((part) => document.elementFromPoint(box.x + part * box.width, box.y + box.height / 2));
      facts[name] = JSON.stringify([looks, box.width, box.height, style.getPropertyValue("--struck")]);
      facts[`above ${name}`] = above.filter((found) => found && page.area.node.contains(found))
        .map((found) => found.outerHTML.slice(0, 200)).join();
    }
    return facts;
  };

  // whatever can be reached with a mouse or a keyboard is, and folds are opened
  page.provoke = async () => {
    for (const node of area.node.querySelectorAll("details")) node.open = true;
    for (const node of area.node.querySelectorAll("*")) {
      if (names(node).every((name) => name === "class" || name === "style")) continue;
      for (const name of ["mouseover", "mouseenter"]) node.dispatchEvent(new MouseEvent(name, {bubbles: true}));
      if (node instanceof HTMLElement && names(node).some((name) => /^on/.test(name)))
        HTMLElement.prototype.focus.call(node, {preventScroll: true});   // lays out the page each time
      node instanceof HTMLElement ? HTMLElement.prototype.click.call(node) : node.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
    }
    await page.frames();
  };

  // beside what is done: what could do something, by what there is no list of
  page.suspects = () => {
    const ofJupyterLab = "button.jupyter-widgets, label.widget-label, .jp-OutputPrompt, .jp-OutputArea-promptOverlay";
    const found = [];
    for (const node of area.node.querySelectorAll("*")) {
      const name = node.localName;
      if (node.classList.contains("lm-Widget") || node.closest(ofJupyterLab)) continue;
      const say = (what) => found.push(`${what}: ${node.outerHTML.slice(0, 300)}`);
      if (!/^h[1-6]$/.test(name) && /struck/.test(`${value(node, "id")} ${value(node, "name")}`)) say("a name");
      if (node.closest("mjx-container")) {
        const leadsOn = node.href && !value(node, "href").startsWith("#");
        if (leadsOn || /struck|neighbour/.test(`${node.className} ${node.id}`)
            || names(node).some((key) => /^on|^data-(?!mml|latex|c$|variant|texclass|mjx|semantic|speech)/.test(key)
               || key === "style" && /struck|fixed|url/.test(value(node, key)))) say("in a formula");
        continue;
      }
      if (!page.elements.has(name) && !name.startsWith("mjx-")) say("an element");
      for (const key of names(node)) if (!page.attributes.has(key) && !(key === "id" && /^h[1-6]$/.test(name))) say(`attribute ${key}`);
      if (name === "a" && node.hasAttribute("href")) {
        const isHere = node.getAttribute("href").startsWith("#");
        const isHereOrPlain = isHere || node.closest(".jp-RenderedText");
        if (!isHereOrPlain && !/^(https?|mailto):$/.test(node.protocol)) say("an address");
        if (!isHere && node.target && !/noopener/.test(node.rel)) say("an opener");
      }
      if (name === "img" && !/^data:image\\/(png|jpeg|gif|webp);base64,/.test(node.src)) say("an image");
      if (name === "style" && /url|@import/i.test(node.textContent)) say("a style sheet");
    }
    return found;
  };
}
"""


class Listener:
    """A server for all hosts but that of JupyterLab; it keeps what is asked of it, and answers nothing."""

    def __enter__(self):
        heard = self.heard = []

        class Handler(BaseHTTPRequestHandler):
            timeout = 1  # of a connection that asks for nothing

            def do_GET(self):
                if "struck" in (address := f"{self.headers['Host']}{self.path}"):  # a browser has wishes of its own
                    heard.append(address)
                self.send_response(204)
                self.end_headers()

            do_POST = do_HEAD = do_OPTIONS = do_GET  # noqa: N815 - the names are the server's

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.port = self._server.server_port
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class HostilePage:
    """A notebook in JupyterLab; `look` shows outputs and returns what they did."""

    def __init__(self, browser, address, listener):
        self._browser, self._address, self._listener = browser, address, listener
        self._noticed = []
        self.page = None
        self.open()

    def open(self):
        """Open a page anew, which knows nothing of what was before."""
        context = self._browser.new_context(viewport={"width": 1200, "height": 900}, service_workers="block")
        context.expose_binding("struck", lambda _source, number: self._noticed.append(f"ran {number}"))
        context.add_init_script(f"({WATCH})()")
        context.on("request", self._on_request)
        self.page = context.new_page()
        show_notebook(self.page, self._address, "hostile.ipynb")
        self.page.wait_for_selector(".neighbour mjx-container", timeout=SECONDS * 1000)
        context.on("page", self._on_page)
        self.page.on("dialog", self._on_dialog)
        self.page.on("websocket", lambda socket: self._on_address(socket.url))
        self.page.on("framenavigated", lambda frame: self._noticed.append(f"went to {frame.url}"))
        self.page.on("download", lambda download: self._noticed.append(f"downloads {download.url}"))
        self.page.evaluate(SETUP, [[*PLAIN], [*ATTRIBUTES, *_ADDED]])

    def close(self):
        """Close the page."""
        self.page.context.close()

    def _on_request(self, request):
        self._on_address(request.url)

    def _on_page(self, page):
        self._noticed.append(f"opens {page.url}")
        page.close()

    def _on_dialog(self, dialog):
        self._noticed.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _on_address(self, url):
        if "struck" in url or (
            url.startswith(("http", "ws")) and urlsplit(url).netloc != urlsplit(self._address).netloc
        ):
            self._noticed.append(f"asks for {url}")

    def look(self, outputs, *, is_obeyed=None):
        """Show pairs of media type and source, click on what can be clicked, and return all that was noticed.

        Parameters
        ----------
        outputs : list of pairs
            What is shown.
        is_obeyed : bool, optional
            Whether JupyterLab trusts it; by default all but Markdown, as it does.
        """
        outputs = [*outputs, ("text/html", CANARY)]
        self._noticed.clear()
        self._listener.heard.clear()
        before = self.page.evaluate("harness.outside()")
        self.page.evaluate("([outputs, isObeyed]) => harness.render(outputs, isObeyed)", [outputs, is_obeyed])
        after = self.page.evaluate("harness.outside()")
        suspects = self.page.evaluate("harness.suspects()")
        self.page.evaluate("harness.provoke()")
        clicked = self.page.evaluate("harness.outside()")
        self.page.evaluate("harness.clear()")
        changes = [
            f"changed {name}: {state[name]}"
            for state in (after, clicked)
            for name in before
            if state[name] != before[name]
        ]
        heard = [f"called {path}" for path in self._listener.heard]
        deeds = [*self._noticed, *heard, *changes]
        assert "ran canary" in deeds, "the page notices nothing any more"
        deeds = [deed for deed in deeds if deed != "ran canary"]
        return Findings(deeds, [suspect for suspect in suspects if CANARY_MARK not in suspect])

    def look_at_cell(self, source, sign, counted):
        """Run code in the notebook until its output has a text; return all that was noticed, and how much was shown."""
        self._noticed.clear()
        self._listener.heard.clear()
        before = self.page.evaluate("harness.outside()")
        self.page.evaluate("source => harness.book.widgets[1].model.sharedModel.setSource(source)", source)
        self.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells') }")
        self.page.locator(".jp-OutputArea").get_by_text(sign).last.wait_for(timeout=SECONDS * 1000)
        self.page.evaluate("harness.frames()")
        suspects = self.page.evaluate("harness.suspects()")
        self.page.evaluate("harness.provoke()")
        after = self.page.evaluate("harness.outside()")
        changes = [f"changed {name}: {after[name]}" for name in before if after[name] != before[name]]
        count = self.page.locator(".jp-OutputArea").locator(counted).count()
        self.page.evaluate("() => { harness.area.model.clear(); return harness.frames() }")
        return Findings([*self._noticed, *self._listener.heard, *changes], suspects), count

    def follow(self, output):
        """Show something, click on the link in it, and return the page that opens, and what was noticed."""
        self._noticed.clear()
        self.page.evaluate("output => harness.render([output])", output)
        self.page.evaluate("window.follows = true")
        with self.page.context.expect_page() as opened:
            self.page.locator(".jp-OutputArea a").click()
        self.page.evaluate("window.follows = false")
        self.page.evaluate("harness.clear()")
        return opened.value, list(self._noticed)


class Findings:
    """What outputs did, and what in them could do something."""

    def __init__(self, deeds, suspects):
        self.deeds, self.suspects = list(dict.fromkeys(deeds)), suspects

    def of(self, pairs):
        """Return all of it in words, with the pairs that it comes from."""
        words = [*self.deeds, *self.suspects]
        known = [[pairs[number] for number in map(int, _NUMBER.findall(said)) if number in pairs] for said in words]
        return [f"{said}\n    {pair}" for said, pair in zip(words, known, strict=True)]


@contextlib.contextmanager
def hostile_page(folder):
    """Give a page of JupyterLab whose browser takes every other host for a `Listener`."""
    cells = [
        nbformat.v4.new_markdown_cell('<span class="neighbour">Untouched $x$</span>'),
        nbformat.v4.new_code_cell(""),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (folder / "hostile.ipynb").write_text(json.dumps(nbformat.v4.new_notebook(cells=cells, metadata=kernel)), "utf-8")
    with Listener() as listener, Lab(folder) as address:
        rules = f"--host-resolver-rules=MAP * 127.0.0.1:{listener.port}, EXCLUDE 127.0.0.1"
        with chromium(rules) as browser:
            page = HostilePage(browser, address, listener)
            yield page
            page.close()
