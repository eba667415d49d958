import { isMap, isNode, isScalar, parseDocument, type Document } from "yaml";
import type { JobFileError } from "@/api/types";
import { checkSchema } from "./schema/check";
import type { Path, Problem, Schema } from "./schema/types";

/** A stretch of the text, and what is wrong there. */
export interface Mark {
  from: number;
  to: number;
  message: string;
}

/** Returns what is wrong with a job file without asking the server: its YAML, then its schema. */
export function checkYaml(text: string, schema: Schema | undefined): Mark[] {
  const document = parseDocument(text);
  if (document.errors.length > 0) {
    return document.errors.map((error) => ({
      ...atLeastOne(error.pos[0], error.pos[1], text),
      message: firstLine(error.message),
    }));
  }
  const value = valueOf(document);
  if (!schema || value === undefined) return [];
  return checkSchema(value, schema).map((problem) => markOf(problem, document, text));
}

/** The server's errors at their lines. One without a line stands at its path, or at the top. */
export function serverMarks(text: string, errors: JobFileError[]): Mark[] {
  const starts = lineStarts(text);
  return errors.map((error) => {
    const start = error.line === null ? undefined : starts[error.line - 1];
    if (start === undefined) return { ...atLeastOne(0, 0, text), message: error.message };
    const from = start + Math.max(0, (error.column ?? 1) - 1);
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    return { ...atLeastOne(Math.min(from, end), end, text), message: error.message };
  });
}

export function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

/** undefined for a document that cannot be made whole, as with too many aliases. */
function valueOf(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    return undefined;
  }
}

function markOf({ path, message, key }: Problem, document: Document, text: string): Mark {
  const [from, to] = (key ? keyRange(document, path) : undefined) ?? valueRange(document, path);
  return { ...oneLine(atLeastOne(from, to, text), text), message };
}

function keyRange(document: Document, path: Path): [number, number] | undefined {
  const parent = path.length > 1 ? document.getIn(path.slice(0, -1), true) : document.contents;
  if (!isMap(parent)) return undefined;
  const name = String(path.at(-1));
  const pair = parent.items.find((each) => isScalar(each.key) && String(each.key.value) === name);
  const range = isScalar(pair?.key) ? pair.key.range : undefined;
  return range ? [range[0], range[1]] : undefined;
}

/** Of the value, or of the nearest parent that has a place in the text. */
function valueRange(document: Document, path: Path): [number, number] {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const range = rangeOf(document.getIn(path.slice(0, depth), true));
    if (range) return range;
  }
  return rangeOf(document.contents) ?? [0, 0];
}

function rangeOf(node: unknown): [number, number] | undefined {
  if (!isNode(node) || !node.range) return undefined;
  return [node.range[0], node.range[1]];
}

/** A mapping's range is many lines; its first shows where it is. */
function oneLine({ from, to }: { from: number; to: number }, text: string) {
  const newline = text.indexOf("\n", from);
  return { from, to: newline < 0 ? to : Math.max(from + 1, Math.min(to, newline)) };
}

function atLeastOne(from: number, to: number, text: string): { from: number; to: number } {
  const start = Math.min(from, Math.max(0, text.length - 1));
  return { from: start, to: Math.min(Math.max(to, start + 1), text.length) };
}

function firstLine(message: string): string {
  return message.split(" at line ")[0] ?? message;
}
