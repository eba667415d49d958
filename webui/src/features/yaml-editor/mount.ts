import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

/** An editor in a shadow root: there CodeMirror's styles are constructed sheets, where in the page
 * they would be <style> elements that the security policy refuses. */
export function mountEditor(host: HTMLElement, doc: string, extensions: Extension): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const place = document.createElement("div");
  place.style.height = "100%";
  root.replaceChildren(place);
  return new EditorView({ doc, parent: place, root, extensions });
}
