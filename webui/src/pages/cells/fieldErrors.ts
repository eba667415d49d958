import type { Assignment, CellProblem } from "@/api/types";
import { keyOf } from "./draft";
import type { AssignmentCheck } from "./useCheck";

/** Where in the editor a problem shows: one field of a VC, the foot of a column, a pin, or (null)
 * only in the list of them all. */
export type EditorField =
  | { at: "claim"; key: string }
  | { at: "column"; chain: string; type: string }
  | { at: "pin"; name: string }
  | null;

/** What is wrong, by the id of the element where it shows. */
export type FieldErrors = Map<string, CellProblem[]>;

export function errorsByField(answer: AssignmentCheck | undefined): FieldErrors {
  const problems: FieldErrors = new Map();
  for (const problem of answer?.errors ?? []) {
    const place = answer && fieldOfError(problem, answer.about);
    if (!place) continue;
    const id = elementId(place);
    problems.set(id, [...(problems.get(id) ?? []), problem]);
  }
  return problems;
}

export function fieldOfError(problem: CellProblem, about: Assignment): EditorField {
  return fieldOfPath(problem.path, about) ?? fieldOfDetails(problem.details);
}

/** Paths are those of the assignment that was sent, such as `virtual_clusters.vision.cells[2]`. */
function fieldOfPath(path: string, about: Assignment): EditorField {
  const pin = /^pins\[(\d+)\]/.exec(path);
  if (pin) return pinField(about.pins[Number(pin[1])]?.name);
  const part = /^virtual_clusters\.([^.[]+)\.(.+)$/.exec(path);
  const [vc, rest] = [part?.[1] ?? "", part?.[2] ?? ""];
  const owns = about.virtual_clusters[vc];
  if (!owns) return null;
  const cell = /^cells\[(\d+)\]/.exec(rest);
  const claim = cell && owns.cells[Number(cell[1])];
  if (claim) return claimField(vc, claim.chain, claim.cell_type);
  const quota = /^quotas\.(.+)$/.exec(rest);
  if (quota?.[1]) return claimField(vc, "", quota[1]);
  const owned = /^pins\[(\d+)\]/.exec(rest);
  return owned ? pinField(owns.pins[Number(owned[1])]) : null;
}

function fieldOfDetails(details: CellProblem["details"]): EditorField {
  const { virtual_cluster: vc, chain, cell_type: type, pin } = details;
  if (typeof pin === "string") return pinField(pin);
  if (typeof chain !== "string" || typeof type !== "string") return null;
  return typeof vc === "string" ? claimField(vc, chain, type) : { at: "column", chain, type };
}

function claimField(vc: string, chain: string, type: string): EditorField {
  return { at: "claim", key: keyOf({ vc, chain, type }) };
}

function pinField(name: string | undefined): EditorField {
  return name ? { at: "pin", name } : null;
}

/** Id of the element at a place, to lead there. */
export function elementId(place: Exclude<EditorField, null>): string {
  switch (place.at) {
    case "claim":
      return slug("claim", place.key);
    case "column":
      return slug("column", place.chain, place.type);
    case "pin":
      return slug("pin", place.name);
  }
}

function slug(...parts: string[]): string {
  return `cells-${parts.join("-").replace(/[^\w-]/g, "_")}`;
}
