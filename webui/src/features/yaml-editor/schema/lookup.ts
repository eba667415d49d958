import type { Path, Schema } from "./types";

/** The schema at a path, branches that are not of interest left out; undefined where none is. */
export function schemaAt(root: Schema, path: Path): Schema | undefined {
  let current: Schema | undefined = concrete(root, root);
  for (const step of path) {
    if (!current) return undefined;
    const inner: Schema | false | undefined =
      typeof step === "number" ? current.items : propertySchema(current, step);
    current = inner ? concrete(inner, root) : undefined;
  }
  return current;
}

/** Of "this or nothing", this. */
function concrete(schema: Schema, root: Schema): Schema {
  const resolved = resolve(schema, root);
  const chosen = branches(resolved)?.find((branch) => resolve(branch, root).type !== "null");
  return chosen ? { ...concrete(chosen, root), ...described(resolved) } : resolved;
}

function described({ description }: Schema): Schema {
  return description ? { description } : {};
}

/** Follows a `$ref` into `$defs`; what stands beside the reference stays. */
function resolve(schema: Schema, root: Schema): Schema {
  let current = schema;
  for (let depth = 0; current.$ref && depth < 20; depth += 1) {
    const { $ref, ...beside } = current;
    const name = $ref.split("/").at(-1) ?? "";
    current = { ...root.$defs?.[name], ...beside };
  }
  return current;
}

function branches(schema: Schema): Schema[] | undefined {
  return schema.anyOf ?? schema.oneOf;
}

/** The schema of a property: by name, by pattern, or of all the others; false is forbidden. */
function propertySchema(schema: Schema, name: string): Schema | false | undefined {
  const own = schema.properties;
  if (own && Object.hasOwn(own, name)) return own[name];
  for (const [pattern, inner] of Object.entries(schema.patternProperties ?? {})) {
    if (new RegExp(pattern, "u").test(name)) return inner;
  }
  const others = schema.additionalProperties;
  return others === true ? undefined : others;
}
