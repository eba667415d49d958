import { nearest } from "./nearest";
import { branches, propertySchema, resolve, toRegExp } from "./resolve";
import type { Path, Problem, Schema } from "./types";

/** All that is wrong with `value` by the schema. An interpreter: the usual validators compile a
 * schema to code, which the page's security policy forbids; and it words errors for people. */
export function checkSchema(value: unknown, root: Schema): Problem[] {
  return check(value, root, root, []);
}

function check(value: unknown, raw: Schema, root: Schema, path: Path): Problem[] {
  const schema = resolve(raw, root);
  const choices = branches(schema);
  if (choices) return checkBranches(value, choices, root, path);
  const problem = wrongValue(value, schema);
  if (problem) return [{ path, message: problem }];
  const inherited = schema.allOf?.flatMap((each) => check(value, each, root, path)) ?? [];
  if (Array.isArray(value)) return [...inherited, ...checkItems(value, schema, root, path)];
  if (isObject(value)) return [...inherited, ...checkObject(value, schema, root, path)];
  return inherited;
}

/** Of the branches that do not fit, the one of the right type that goes wrong deepest speaks. */
function checkBranches(value: unknown, choices: Schema[], root: Schema, path: Path): Problem[] {
  const tried = choices.map((choice) => check(value, choice, root, path));
  if (tried.some((problems) => problems.length === 0)) return [];
  const inside = tried.filter((problems) =>
    problems.every((each) => each.path.length > path.length),
  );
  const [best] = inside.sort((a, b) => a.length - b.length);
  if (best) return best;
  const messages = new Set(tried.flat().map((problem) => problem.message));
  return [{ path, message: [...messages].join(", or ") }];
}

function wrongValue(value: unknown, schema: Schema): string | undefined {
  if (schema.type && !hasType(value, schema.type)) return `must be ${typeWords(schema.type)}`;
  if ("const" in schema && value !== schema.const) return `must be ${show(schema.const)}`;
  if (schema.enum && !schema.enum.includes(value)) {
    return `must be one of ${schema.enum.map(show).join(", ")}`;
  }
  if (typeof value === "string") return wrongText(value, schema);
  if (typeof value === "number") return wrongNumber(value, schema);
  return undefined;
}

function wrongText(value: string, schema: Schema): string | undefined {
  if (value.length < (schema.minLength ?? 0)) return "must not be empty";
  if (value.length > (schema.maxLength ?? Infinity)) {
    return `must have at most ${schema.maxLength} characters`;
  }
  if (schema.pattern && toRegExp(schema.pattern)?.test(value) === false) {
    return `must match ${schema.pattern.replace(/^\\A|\\[zZ]$|^\^|\$$/g, "")}`;
  }
  return undefined;
}

function wrongNumber(value: number, schema: Schema): string | undefined {
  if (value < (schema.minimum ?? -Infinity)) return `must be at least ${schema.minimum}`;
  if (value > (schema.maximum ?? Infinity)) return `must be at most ${schema.maximum}`;
  if (value <= (schema.exclusiveMinimum ?? -Infinity)) {
    return `must be more than ${schema.exclusiveMinimum}`;
  }
  if (value >= (schema.exclusiveMaximum ?? Infinity)) {
    return `must be less than ${schema.exclusiveMaximum}`;
  }
  return undefined;
}

function checkItems(value: unknown[], schema: Schema, root: Schema, path: Path): Problem[] {
  if (value.length < (schema.minItems ?? 0)) {
    return [{ path, message: `needs at least ${schema.minItems} of them` }];
  }
  if (value.length > (schema.maxItems ?? Infinity)) {
    return [{ path, message: `takes at most ${schema.maxItems} of them` }];
  }
  const { items } = schema;
  return items ? value.flatMap((each, at) => check(each, items, root, [...path, at])) : [];
}

function checkObject(
  value: Record<string, unknown>,
  schema: Schema,
  root: Schema,
  path: Path,
): Problem[] {
  const missing = (schema.required ?? [])
    .filter((name) => !Object.hasOwn(value, name))
    .map((name) => ({ path, message: `needs ${show(name)}`, key: path.length > 0 }));
  const names = Object.keys(value);
  if (names.length < (schema.minProperties ?? 0)) {
    return [{ path, message: `needs at least ${schema.minProperties}` }];
  }
  return [...missing, ...names.flatMap((name) => checkProperty(name, value, schema, root, path))];
}

function checkProperty(
  name: string,
  value: Record<string, unknown>,
  schema: Schema,
  root: Schema,
  path: Path,
): Problem[] {
  const inner = propertySchema(schema, name);
  const here = [...path, name];
  if (inner === false) return [{ path: here, message: unknownField(name, schema), key: true }];
  const naming = schema.propertyNames && wrongText(name, resolve(schema.propertyNames, root));
  if (naming) return [{ path: here, message: `a name here ${naming}`, key: true }];
  return inner ? check(value[name], inner, root, here) : [];
}

function unknownField(name: string, schema: Schema): string {
  const known = Object.keys(schema.properties ?? {});
  const meant = nearest(name, known);
  if (meant) return `${show(name)} is not known here; did you mean ${show(meant)}?`;
  return `${show(name)} is not known here; known are ${known.join(", ")}`;
}

function hasType(value: unknown, type: string | string[]): boolean {
  return [type].flat().some((each) => TYPES[each]?.(value) ?? true);
}

const TYPES: Record<string, (value: unknown) => boolean> = {
  object: isObject,
  array: Array.isArray,
  string: (value) => typeof value === "string",
  integer: (value) => Number.isInteger(value),
  number: (value) => typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
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

function typeWords(type: string | string[]): string {
  return [type]
    .flat()
    .map((each) => TYPE_WORDS[each] ?? each)
    .join(" or ");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function show(value: unknown): string {
  return typeof value === "string" ? `"${value}"` : String(value);
}
