import {
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  parseDocument,
  visit,
  type Node,
} from "yaml";
import { HIDDEN } from "./hidden";

/** Where values stand that only the containers of a job may know. */
const SECRETIVE = /\b(secrets|auth)\b/;

/** The job file with stars for the values of its secrets and of its logins at registries, to be kept
 * where other programs of this machine can read. Null where it cannot be told what is secret. */
export function withoutSecrets(text: string): string | null {
  if (!SECRETIVE.test(text)) return text;
  const document = parseDocument(text);
  const root = document.contents;
  if (document.errors.length > 0 || !isMap(root)) return null;
  const places: [number, number][] = [];
  for (const part of secretParts(root)) {
    if (!collect(part, places)) return null;
  }
  return covered(text, places);
}

function secretParts(root: Node): Node[] {
  if (!isMap(root)) return [];
  const parts: Node[] = [];
  for (const { key, value } of root.items) {
    const name = isScalar(key) ? key.value : null;
    if (name === "secrets" && value) parts.push(value as Node);
    if (name !== "prerequisites") continue;
    // Written as an alias, it would have to be looked for elsewhere.
    if (!isSeq(value)) parts.push(value as Node);
    else for (const each of value.items) parts.push(...authOf(each as Node));
  }
  return parts;
}

function authOf(prerequisite: Node): Node[] {
  if (!isMap(prerequisite)) return [prerequisite];
  const auth = prerequisite.get("auth", true);
  return auth ? [auth as Node] : [];
}

/** Adds where the values stand; false where one stands elsewhere. */
function collect(part: Node, places: [number, number][]): boolean {
  let all = isCollection(part) || isScalar(part);
  visit(part, (key, node) => {
    if (isAlias(node)) all = false;
    if (key === "key" || !isScalar(node) || node.value === null || !node.range) return;
    places.push([node.range[0], node.range[1]]);
  });
  return all;
}

function covered(text: string, places: [number, number][]): string {
  const inOrder = [...places].sort(([a], [b]) => b - a);
  return inOrder.reduce((known, [start, end]) => {
    const newline = known[end - 1] === "\n" ? "\n" : "";
    return `${known.slice(0, start)}"${HIDDEN}"${newline}${known.slice(end)}`;
  }, text);
}
