import { textParam } from "@/format/searchParams";

/** What the address of the page of a new job holds: the id of a job to copy, or the name of a
 * template with the parameters to change in it. */
export interface SubmitSearch {
  from?: string;
  template?: string;
  parameters?: Record<string, string | number | boolean>;
}

export function submitSearch(search: Record<string, unknown>): SubmitSearch {
  return {
    from: textParam(search["from"]),
    template: textParam(search["template"]),
    parameters: plainValues(search["parameters"]),
  };
}

function plainValues(given: unknown): SubmitSearch["parameters"] {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return undefined;
  const values = Object.entries(given).filter(
    (entry): entry is [string, string | number | boolean] =>
      ["string", "number", "boolean"].includes(typeof entry[1]),
  );
  return values.length > 0 ? Object.fromEntries(values.slice(0, 100)) : undefined;
}
