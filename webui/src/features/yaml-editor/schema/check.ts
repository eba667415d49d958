import { Validator, type OutputUnit, type Schema as LibrarySchema } from "@cfworker/json-schema";
import type { Path, Problem, Schema } from "./types";

/** Returns all that is wrong with `value` by the schema, worded for people. The validator is an
 * interpreter: most others compile a schema to code, which the page's security policy forbids. */
export function checkSchema(value: unknown, root: Schema): Problem[] {
  // An optional field that was left empty is null; the library takes undefined for a mistake.
  const validator = new Validator(root as LibrarySchema, "2020-12", false);
  return problemsOf(validator.validate(value ?? null).errors, { value, root });
}

interface Context {
  value: unknown;
  root: Schema;
}

/** Errors come as a tree in preorder: one that holds others, then those. Of each value the first
 * error is reported, and every name that it lacks or does not know. */
function problemsOf(errors: OutputUnit[], context: Context): Problem[] {
  const problems: Problem[] = [];
  const reported = new Set<string>();
  for (let at = 0; at < errors.length; at += 1) {
    const error = errors[at] as OutputUnit;
    if (error.keyword === "anyOf" || error.keyword === "oneOf") {
      const inside = insideOf(errors, at);
      problems.push(...ofBestBranch(inside, error, context));
      at += inside.length;
    } else if (error.keyword === "false") {
      problems.push(unknownField(error, errors[at - 1], context));
    } else if (!reported.has(error.instanceLocation) && !HOLDS_OTHERS.has(error.keyword)) {
      if (error.keyword !== "required") reported.add(error.instanceLocation);
      else if (reported.has(`required ${error.instanceLocation}`)) continue;
      else reported.add(`required ${error.instanceLocation}`);
      problems.push(...wordsOf(error, context));
    }
  }
  return problems;
}

const HOLDS_OTHERS = new Set([
  ...["$ref", "allOf", "properties", "patternProperties", "additionalProperties", "propertyNames"],
  ...["items", "prefixItems"],
]);

/** The errors of the branches of `errors[at]`, which follow it. That of a forbidden property
 * (`false`) has no place in the schema: it belongs to what stands before it. */
function insideOf(errors: OutputUnit[], at: number): OutputUnit[] {
  const below = `${errors[at]?.keywordLocation}/`;
  const rest = errors.slice(at + 1);
  const end = rest.findIndex(
    (each) => each.keyword !== "false" && !each.keywordLocation.startsWith(below),
  );
  return end < 0 ? rest : rest.slice(0, end);
}

/** Of the branches that do not fit, the one that goes wrong inside the value, in the fewest places,
 * is the one that was meant. */
function ofBestBranch(inside: OutputUnit[], choice: OutputUnit, context: Context): Problem[] {
  const branches = new Map<string, OutputUnit[]>();
  let number = "";
  for (const error of inside) {
    if (error.keyword !== "false") {
      number = error.keywordLocation.slice(choice.keywordLocation.length + 1).split("/")[0] ?? "";
    }
    branches.set(number, [...(branches.get(number) ?? []), error]);
  }
  const tried = [...branches.values()].map((errors) => problemsOf(errors, context));
  const path = pathOf(choice.instanceLocation, context.value);
  const [best] = tried
    .filter((problems) => problems.every((each) => each.path.length > path.length))
    .sort((a, b) => a.length - b.length);
  if (best) return best;
  const messages = new Set(tried.flat().map((problem) => problem.message));
  return [{ path, message: [...messages].join(", or ") }];
}

function wordsOf(error: OutputUnit, { value, root }: Context): Problem[] {
  const path = pathOf(error.instanceLocation, value);
  const limit = lookUp(root, error.keywordLocation, root);
  if (error.keyword === "required") {
    const here = lookUp(value, error.instanceLocation) as object;
    return (limit as string[])
      .filter((name) => !Object.hasOwn(here, name))
      .map((name) => ({ path, message: `needs ${show(name)}`, key: path.length > 0 }));
  }
  const message = WORDS[error.keyword]?.(limit as never) ?? error.error;
  const isName = error.keywordLocation.includes("/propertyNames/");
  return [isName ? { path, message: `a name here ${message}`, key: true } : { path, message }];
}

/** What to say of a value, by the keyword that it breaks and what the schema has for that. */
const WORDS: Record<string, (limit: never) => string> = {
  type: (type: string | string[]) =>
    `must be ${[type]
      .flat()
      .map((each) => TYPE_WORDS[each] ?? each)
      .join(" or ")}`,
  const: (value: unknown) => `must be ${show(value)}`,
  enum: (values: unknown[]) => `must be one of ${values.map(show).join(", ")}`,
  minLength: (length: number) =>
    length === 1 ? "must not be empty" : `must have at least ${length} characters`,
  maxLength: (length: number) => `must have at most ${length} characters`,
  pattern: (pattern: string) => `must match ${pattern.replace(/^\^|\$$/g, "")}`,
  minimum: (least: number) => `must be at least ${least}`,
  maximum: (most: number) => `must be at most ${most}`,
  exclusiveMinimum: (bound: number) => `must be more than ${bound}`,
  exclusiveMaximum: (bound: number) => `must be less than ${bound}`,
  minItems: (least: number) => `needs at least ${least} of them`,
  maxItems: (most: number) => `takes at most ${most} of them`,
  minProperties: (least: number) => `needs at least ${least}`,
  maxProperties: (most: number) => `takes at most ${most}`,
};

const TYPE_WORDS: Record<string, string> = {
  object: "a mapping",
  array: "a list",
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  null: "nothing",
};

function unknownField(error: OutputUnit, holder: OutputUnit | undefined, { value, root }: Context) {
  const path = pathOf(error.instanceLocation, value);
  const name = String(path.at(-1));
  const around = holder?.keywordLocation.replace(/\/[^/]*$/, "") ?? "#";
  const schema = lookUp(root, around, root) as Schema | undefined;
  const known = Object.keys(schema?.properties ?? {});
  const meant = nearest(name, known);
  const hint = meant ? `did you mean ${show(meant)}?` : `known are ${known.join(", ")}`;
  return { path, message: `${show(name)} is not known here; ${hint}`, key: true };
}

/** What stands at a JSON pointer ("#/a/0"). With `root` the pointer goes through references. */
function lookUp(from: unknown, pointer: string, root?: Schema): unknown {
  let current = from as Record<string, unknown> | undefined;
  for (const part of partsOf(pointer)) {
    const next = current?.[part];
    const isReference = root && part === "$ref" && typeof next === "string";
    current = (isReference ? lookUp(root, next, root) : next) as typeof current;
  }
  return current;
}

/** The path to a part of `value`: items of lists by number, what a mapping holds by name. */
function pathOf(pointer: string, value: unknown): Path {
  let current = value as Record<string, unknown> | undefined;
  return partsOf(pointer).map((part) => {
    const step = Array.isArray(current) ? Number(part) : part;
    current = current?.[part] as typeof current;
    return step;
  });
}

function partsOf(pointer: string): string[] {
  const parts = pointer.split("/").slice(1);
  return parts.map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
}

function show(value: unknown): string {
  return typeof value === "string" ? `"${value}"` : String(value);
}

/** The name that was probably meant: at most a third of its letters differ. */
function nearest(name: string, known: string[]): string | undefined {
  const ranked = known
    .map((each) => ({ each, far: editDistance(name.toLowerCase(), each.toLowerCase()) }))
    .sort((a, b) => a.far - b.far);
  const [best] = ranked;
  return best && best.far <= Math.max(1, best.each.length / 3) ? best.each : undefined;
}

/** Levenshtein's: inserted, dropped and changed letters. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
