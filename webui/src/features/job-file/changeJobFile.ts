import { type Document, isMap, isScalar, parseDocument, type Scalar } from "yaml";

export type Path = (string | number)[];

/** The text as a document; null where it is no mapping. */
export function parse(text: string): Document | null {
  const document = parseDocument(text, { version: "1.2" });
  return document.errors.length === 0 && isMap(document.contents) ? document : null;
}

/** The text with a change; null where it cannot be changed so: it is no mapping, a place is in
 * something else than a mapping or list, or an alias would lose its anchor. */
export function changed(text: string, change: (document: Document) => void): string | null {
  const document = parse(text);
  if (!document) return null;
  try {
    change(document);
    return print(document, text);
  } catch {
    return null;
  }
}

/** Puts a value at a place. What is there keeps its comment. */
export function put(document: Document, path: Path, value: unknown) {
  const there = document.getIn(path, true);
  if (isScalar(there) && (typeof value !== "object" || value === null)) {
    there.value = value;
    return;
  }
  const bare = path.findIndex((_, at) => isBare(document.getIn(path.slice(0, at + 1), true)));
  if (bare === -1 || bare === path.length - 1) {
    document.setIn(path, document.createNode(value));
    return;
  }
  // A section without anything in it, as in `secrets:`, is null: setIn refuses to go into it.
  const section = path.slice(0, bare + 1);
  const { comment, commentBefore } = document.getIn(section, true) as Scalar;
  const filled = document.createNode(path.slice(bare + 1).reduceRight(wrapped, value));
  filled.commentBefore = comment ?? commentBefore;
  document.setIn(section, filled);
}

function isBare(node: unknown): boolean {
  return isScalar(node) && node.value === null;
}

function wrapped(inner: unknown, key: string | number): unknown {
  return typeof key === "number" ? [inner] : { [key]: inner };
}

/** Long lines are not folded, and lists keep their indent. JSON stays JSON, with a line for each
 * value. */
function print(document: Document, before: string): string {
  if (isJson(before)) return printJson(document.toJS(), before);
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** JSON in one line, with a line for each value; any other text as it is. */
export function withJsonLines(text: string): string {
  return !text.trim().includes("\n") && isJson(text) ? printJson(JSON.parse(text), text) : text;
}

function isJson(text: string): boolean {
  if (!text.trimStart().startsWith("{")) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** As JSON with the indent of the text before, or of 2 spaces. */
function printJson(data: unknown, before: string): string {
  const indent = /\n([ \t]+)\S/.exec(before)?.[1] ?? 2;
  return JSON.stringify(data, null, indent) + (before.endsWith("\n") ? "\n" : "");
}
