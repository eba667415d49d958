import { autocompletion, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput } from "@codemirror/language";
import { lintGutter, lintKeymap } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import type { Schema } from "./schema/types";
import { completeFrom } from "./complete";
import { editorTheme } from "./theme";

/** What reading and writing have in common. */
function shared(label: string): Extension[] {
  return [
    lineNumbers(),
    foldGutter(),
    drawSelection(),
    bracketMatching(),
    highlightSelectionMatches(),
    search({ top: true }),
    yaml(),
    editorTheme,
    EditorState.tabSize.of(2),
    // The number makes it plain to checkers that the keyboard scrolls what is long.
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    keymap.of([...searchKeymap, ...foldKeymap]),
  ];
}

export function readOnly(label: string): Extension[] {
  return [...shared(label), EditorState.readOnly.of(true)];
}

/** Tab indents; Escape and then Tab leaves the editor, as CodeMirror has it. */
export function writable(label: string, schema: () => Schema | undefined): Extension[] {
  return [
    ...shared(label),
    history(),
    indentOnInput(),
    closeBrackets(),
    autocompletion({ override: [completeFrom(schema)] }),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    lintGutter(),
    keymap.of([
      ...closeBracketsKeymap,
      ...lintKeymap,
      ...historyKeymap,
      // Mod-Enter is the page's: it checks the job.
      ...defaultKeymap.filter((binding) => binding.key !== "Mod-Enter"),
      indentWithTab,
    ]),
  ];
}
