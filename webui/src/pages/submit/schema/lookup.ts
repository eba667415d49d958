import { branches, propertySchema, resolve } from "./resolve";
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
