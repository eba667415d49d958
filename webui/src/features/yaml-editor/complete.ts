import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { parseDocument, isMap, isScalar } from "yaml";
import { schemaAt } from "./schema/lookup";
import type { Path, Schema } from "./schema/types";
import { positionAt } from "./yamlPath";

/** Offers the keys that the schema knows at the cursor, and the values where there are few. */
export function completeFrom(schema: () => Schema | undefined) {
  return (context: CompletionContext): CompletionResult | null => {
    const root = schema();
    const word = context.matchBefore(/[\w.-]*/);
    if (!root || !word || (word.from === word.to && !context.explicit)) return null;
    const text = context.state.doc.toString();
    const { path, key } = positionAt(text, word.from);
    const options =
      key === null
        ? keys(schemaAt(root, path), held(text, path))
        : values(schemaAt(root, [...path, key]));
    return options.length > 0 ? { from: word.from, options, validFor: /^[\w.-]*$/ } : null;
  };
}

function keys(schema: Schema | undefined, present: Set<string>): Completion[] {
  const required = new Set(schema?.required);
  return Object.entries(schema?.properties ?? {})
    .filter(([name]) => !present.has(name))
    .map(([name, inner]) => ({
      label: name,
      apply: `${name}: `,
      type: "property",
      detail: required.has(name) ? "needed" : undefined,
      info: inner.description,
      boost: required.has(name) ? 1 : 0,
    }));
}

function values(schema: Schema | undefined): Completion[] {
  const known = schema?.enum ?? (schema && "const" in schema ? [schema.const] : []);
  const examples = schema?.examples?.filter((value) => typeof value !== "object") ?? [];
  return [
    ...known.map((value) => ({ label: String(value), type: "constant" })),
    ...examples.map((value) => ({ label: String(value), type: "text", detail: "example" })),
  ];
}

/** Keys that the mapping has already. */
function held(text: string, path: Path): Set<string> {
  const document = parseDocument(text);
  const node = path.length > 0 ? document.getIn(path, true) : document.contents;
  if (!isMap(node)) return new Set();
  return new Set(node.items.map((item) => (isScalar(item.key) ? String(item.key.value) : "")));
}
