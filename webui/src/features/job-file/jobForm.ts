import { type Document, isMap, isScalar } from "yaml";
import { changed, parse, type Path, put } from "./changeJobFile";

export type ParameterValue = string | number | boolean;

/** The common fields of a job file. Everything else stays in the text as it is. */
export interface JobForm {
  name: string;
  virtualCluster: string;
  priorityClass: string;
  retries: number;
  image: string;
  roles: RoleForm[];
  /** Those that are one value each. */
  parameters: Record<string, ParameterValue>;
  storages: string[];
  /** Names only: values are written in the text. */
  secrets: string[];
}

export interface RoleForm {
  name: string;
  instances: number;
  cpu: number;
  memoryMB: number;
  gpu: number;
  commands: string;
}

/** The fields of a text; null where it is no YAML object and only the editor can help. */
export function readForm(text: string): JobForm | null {
  const document = parse(text);
  try {
    return document && formOf(document);
  } catch {
    return null; // aliases that unfold too far, or objects where others are expected
  }
}

function formOf(document: Document): JobForm {
  const roles = document.get("taskRoles");
  return {
    name: textAt(document, ["name"]),
    virtualCluster: textAt(document, ["defaults", "virtualCluster"]),
    priorityClass: textAt(document, ["extras", "hivedScheduler", "jobPriorityClass"]),
    retries: numberAt(document, ["jobRetryCount"]),
    image: textAt(document, imagePath(document)),
    roles: isMap(roles) ? roles.items.map(({ key }) => readRole(document, keyText(key))) : [],
    parameters: plainParameters((document.toJS() as { parameters?: unknown }).parameters),
    storages: names(document.toJS() as Json, ["extras", "storages"]),
    secrets: Object.keys((document.toJS() as { secrets?: object }).secrets ?? {}),
  };
}

function plainParameters(given: unknown): JobForm["parameters"] {
  const entries = given && typeof given === "object" ? Object.entries(given) : [];
  return Object.fromEntries(
    entries.filter((entry): entry is [string, ParameterValue] =>
      ["string", "number", "boolean"].includes(typeof entry[1]),
    ),
  );
}

/** The text with a parameter of its own; what reads as a number is one. */
export function withParameter(text: string, name: string, value: string): string {
  const number = /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  return withField(text, ["parameters", name], number);
}

export function withoutParameter(text: string, name: string): string {
  const rest = without(text, ["parameters", name]);
  const left = parse(rest)?.get("parameters");
  return isMap(left) && left.items.length === 0 ? without(rest, ["parameters"]) : rest;
}

/** The text with another value at one place; comments, order and unknown fields stay. As all that
 * follow, it returns a text that cannot be changed so as it is. */
export function withField(text: string, path: Path, value: unknown): string {
  if (value === undefined) return without(text, path);
  return changed(text, (document) => put(document, path, value)) ?? text;
}

export function withImage(text: string, image: string): string {
  return changed(text, (document) => put(document, imagePath(document), image)) ?? text;
}

/** Another virtual cluster. Its default image takes the place of that of the one before, or of none:
 * an image that was chosen stays. `defaults` are the default images by virtual cluster. */
export function withVirtualCluster(
  text: string,
  vc: string | null,
  defaults: ReadonlyMap<string, string>,
): string {
  const before = readForm(text);
  const changed = withField(text, ["defaults", "virtualCluster"], vc ?? undefined);
  const image = defaults.get(vc ?? "");
  const replaces = !before?.image || before.image === defaults.get(before.virtualCluster);
  return image && replaces ? withImage(changed, image) : changed;
}

/** Commands of several lines are one item each, as OpenPAI reads them. */
export function withCommands(text: string, role: string, commands: string): string {
  return withField(text, ["taskRoles", role, "commands"], commands.split("\n"));
}

export function withStorages(text: string, storages: string[]): string {
  const value = storages.length > 0 ? storages.map((name) => ({ name })) : undefined;
  return withField(text, ["extras", "storages"], value);
}

/** The text with one more task role, of one task without a GPU, in the image of the first. */
export function withRole(text: string, name: string): string {
  const document = parse(text);
  if (!document) return text;
  const first = readForm(text)?.roles[0]?.name;
  const image = first === undefined ? "" : textAt(document, ["taskRoles", first, "dockerImage"]);
  return withField(text, ["taskRoles", name], {
    instances: 1,
    ...(image && { dockerImage: image }),
    resourcePerInstance: { cpu: 1, memoryMB: 1024, gpu: 0 },
    commands: ["echo hello"],
  });
}

/** Where a job file says something of a task role. */
const OF_ROLES: Path[] = [
  ["taskRoles"],
  ["extras", "hivedScheduler", "taskRoles"],
  ["extras", "skep", "taskRoles"],
];

export function withoutRole(text: string, name: string): string {
  return without(text, ...OF_ROLES.map((path) => [...path, name]));
}

/** The text with a secret; its value stands in the text until it is submitted. */
export function withSecret(text: string, name: string, value: string): string {
  return withField(text, ["secrets", name], value);
}

export function withoutSecret(text: string, name: string): string {
  const rest = without(text, ["secrets", name]);
  return readForm(rest)?.secrets.length === 0 ? without(rest, ["secrets"]) : rest;
}

/** The text without what stands at these places, and without a change where nothing does. */
function without(text: string, ...paths: Path[]): string {
  const found = paths.filter((path) => parse(text)?.hasIn(path));
  if (found.length === 0) return text;
  return changed(text, (document) => found.forEach((path) => document.deleteIn(path))) ?? text;
}

/** The text of a template as a job of this user: with these values of its parameters, in a virtual
 * cluster of the user. */
export function fromTemplate(
  text: string,
  parameters: Record<string, string | number | boolean>,
  virtualCluster: string,
): string {
  const filled = Object.entries(parameters).reduce(
    (known, [name, value]) => withField(known, ["parameters", name], value),
    text,
  );
  return withField(filled, ["defaults", "virtualCluster"], virtualCluster);
}

function readRole(document: Document, name: string): RoleForm {
  const path = ["taskRoles", name];
  const resources = [...path, "resourcePerInstance"];
  const commands = (
    document.getIn([...path, "commands"]) as { toJSON?: () => unknown } | undefined
  )?.toJSON?.();
  return {
    name,
    instances: numberAt(document, [...path, "instances"], 1),
    cpu: numberAt(document, [...resources, "cpu"]),
    memoryMB: numberAt(document, [...resources, "memoryMB"]),
    gpu: numberAt(document, [...resources, "gpu"]),
    commands: Array.isArray(commands) ? commands.map(String).join("\n") : "",
  };
}

/** The address of the image that the first role uses, or else of the first image. */
function imagePath(document: Document): Path {
  const file = document.toJS() as {
    prerequisites?: { name?: string; type?: string }[];
    taskRoles?: Record<string, { dockerImage?: string }>;
  };
  const used = Object.values(file.taskRoles ?? {})[0]?.dockerImage;
  const all = Array.isArray(file.prerequisites) ? file.prerequisites : [];
  const at = all.findIndex(({ type, name }) => type === "dockerimage" && name === used);
  return ["prerequisites", Math.max(at, 0), "uri"];
}

function textAt(document: Document, path: Path): string {
  const value = document.getIn(path);
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function numberAt(document: Document, path: Path, absent = 0): number {
  const value = document.getIn(path);
  return typeof value === "number" ? value : absent;
}

function keyText(key: unknown): string {
  return String(isScalar(key) ? key.value : key);
}

type Json = { [key: string]: Json | Json[] | string } | undefined;

function names(file: Json, [first, second]: [string, string]): string[] {
  const parent = file?.[first] as Json;
  const listed = parent?.[second];
  if (!Array.isArray(listed)) return [];
  return listed.flatMap((item) => (typeof item?.["name"] === "string" ? [item["name"]] : []));
}
