import {
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  type Node,
  parseDocument,
  visit,
} from "yaml";
import { changed, parse, put } from "@/features/job-file/changeJobFile";

/** Where values stand that only the containers of a job may know. */
const SECRET_NAME = /\b(secrets|auth)\b/;

/** The job file with stars for the values of its secrets and of its logins at registries, to be kept
 * where other programs of this machine can read. Null where it is not clear what is secret. */
export function maskSecrets(text: string): string | null {
  if (!SECRET_NAME.test(text)) return text;
  const document = parseDocument(text);
  const root = document.contents;
  if (document.errors.length > 0 || !isMap(root)) return null;
  const places: [number, number][] = [];
  for (const part of secretParts(root)) {
    if (!collect(part, places)) return null;
  }
  return masked(text, places);
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

function masked(text: string, places: [number, number][]): string {
  const inOrder = [...places].sort(([a], [b]) => b - a);
  return inOrder.reduce((known, [start, end]) => {
    const newline = known[end - 1] === "\n" ? "\n" : "";
    return `${known.slice(0, start)}"${MASKED_VALUE}"${newline}${known.slice(end)}`;
  }, text);
}

/** What the server shows in the place of a secret's value. */
export const MASKED_VALUE = "******";

/** Whether the job file has secrets whose values have to be typed again. */
export function hasMaskedSecrets(text: string): boolean {
  if (!text.includes(MASKED_VALUE)) return false;
  const secrets = parseDocument(text).get("secrets", true);
  if (!isMap(secrets)) return false;
  let hidden = false;
  visit(secrets, (key, node) => {
    if (key !== "key" && isScalar(node) && node.value === MASKED_VALUE) hidden = true;
  });
  return hidden;
}

/** The job file of a copy: names are unique per owner, so the copy counts on from its original. In
 * YAML and in JSON nothing else changes. */
export function withNextName(text: string): string {
  const name = parse(text)?.get("name", true);
  if (!isScalar(name) || typeof name.value !== "string" || !name.range) return text;
  const [start, end] = name.range;
  const quote = /^["']/.exec(text.slice(start, end))?.[0] ?? "";
  return text.slice(0, start) + quote + nextName(name.value) + quote + text.slice(end);
}

export function nextName(name: string): string {
  const counted = /^(.*?)-(\d{1,6})$/.exec(name);
  return counted ? `${counted[1]}-${Number(counted[2]) + 1}` : `${name}-2`;
}

const PLACE = ["extras", "skep", "workingFiles"];
const PATH = "/workspace";

/** The job file with its working files set; null where it is no mapping to set anything in. */
export function withFiles(text: string, sha256: string): string | null {
  return changed(text, (document) => {
    const path = document.getIn([...PLACE, "path"]) ?? PATH;
    put(document, PLACE, { archive: `sha256:${sha256}`, path });
  });
}
