import { forceLinting, linter, type Diagnostic } from "@codemirror/lint";
import { StateEffect } from "@codemirror/state";
import { EditorView, type ViewUpdate } from "@codemirror/view";
import { useEffect, useEffectEvent, useImperativeHandle, useRef, type Ref } from "react";
import type { JobFileError } from "@/api/types";
import type { Schema } from "./schema/types";
import { mountEditor } from "./mount";
import { checkYaml, serverMarks, type Mark } from "./positions";
import { writable } from "./setup";
import css from "./editor.module.css";

export interface EditorHandle {
  /** Puts the cursor at a place, 1-based. */
  goTo(line: number, column: number): void;
}

interface Props {
  ref: Ref<EditorHandle>;
  /** Replaces the text when it differs from what is in the editor. */
  text: string;
  onChange: (text: string) => void;
  schema: Schema | undefined;
  /** What the server said of exactly this text. */
  errors: JobFileError[];
}

export default function YamlEditor({ ref, text, onChange, schema, errors }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const changed = useEffectEvent((view: EditorView) => onChange(view.state.doc.toString()));
  const initial = useEffectEvent(() => text);
  const known = useEffectEvent(() => schema);
  const diagnose = useEffectEvent((view: EditorView) =>
    diagnostics(view.state.doc.toString(), schema, errors),
  );

  useEffect(() => {
    if (!host.current) return undefined;
    const view = mountEditor(host.current, initial(), [
      writable("Job file", () => known()),
      linter((each) => diagnose(each), { delay: 250, needsRefresh: isRecheck }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) changed(update.view);
      }),
    ]);
    editor.current = view;
    view.focus();
    return () => view.destroy();
  }, []);

  useEffect(() => {
    const view = editor.current;
    if (!view || view.state.doc.toString() === text) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
  }, [text]);

  useEffect(() => {
    if (editor.current) refreshLint(editor.current);
  }, [schema, errors]);

  useImperativeHandle(ref, () => ({
    goTo(line, column) {
      const view = editor.current;
      if (!view) return;
      const { from, length } = view.state.doc.line(Math.min(line, view.state.doc.lines));
      const anchor = from + Math.min(Math.max(0, column - 1), length);
      view.dispatch({ selection: { anchor }, scrollIntoView: true });
      view.focus();
    },
  }));

  return <div ref={host} className={css.host} />;
}

/** The page's own findings, and those of the server on other lines: it sees the same mistakes. */
function diagnostics(
  text: string,
  schema: Schema | undefined,
  errors: JobFileError[],
): Diagnostic[] {
  const own = checkYaml(text, schema);
  const lineOf = (mark: Mark) => text.slice(0, mark.from).split("\n").length;
  const lines = new Set(own.map(lineOf));
  const others = serverMarks(text, errors).filter((mark) => !lines.has(lineOf(mark)));
  return [...own, ...others].map((mark) => ({ ...mark, severity: "error" }));
}

/** Findings may change without the text: the schema arrived, the server answered. */
const recheck = StateEffect.define();

function isRecheck(update: ViewUpdate): boolean {
  return update.transactions.some((each) => each.effects.some((effect) => effect.is(recheck)));
}

function refreshLint(view: EditorView): void {
  view.dispatch({ effects: recheck.of(null) });
  forceLinting(view);
}
