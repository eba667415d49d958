import type { Schema } from "./types";

/** Follows a `$ref` into `$defs`; what stands beside the reference stays. */
export function resolve(schema: Schema, root: Schema): Schema {
  let current = schema;
  for (let depth = 0; current.$ref && depth < 20; depth += 1) {
    const { $ref, ...beside } = current;
    const name = $ref.split("/").at(-1) ?? "";
    current = { ...root.$defs?.[name], ...beside };
  }
  return current;
}

/** Python anchors a pattern with \A and \z, JavaScript with ^ and $. */
export function toRegExp(pattern: string): RegExp | null {
  try {
    return new RegExp(pattern.replace(/\\A/g, "^").replace(/\\[zZ]/g, "$"), "u");
  } catch {
    return null;
  }
}

export function branches(schema: Schema): Schema[] | undefined {
  return schema.anyOf ?? schema.oneOf;
}

/** The schema of a property: by name, by pattern, or of all the others; false is forbidden. */
export function propertySchema(schema: Schema, name: string): Schema | false | undefined {
  const own = schema.properties;
  if (own && Object.hasOwn(own, name)) return own[name];
  for (const [pattern, inner] of Object.entries(schema.patternProperties ?? {})) {
    if (toRegExp(pattern)?.test(name)) return inner;
  }
  const others = schema.additionalProperties;
  return others === true ? undefined : others;
}
