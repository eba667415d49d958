import type { Reason } from "@/api/types";

/** A job that uses what another waits for; without an id it is one that the reader may not see. `until` is a guess in ms; null: nobody knows. */
export interface Holder {
  id: string;
  name: string;
  gpus: number;
  until: number | null;
}

/** The numbers behind a waiting reason, as far as it has them. */
export interface Numbers {
  needs: { gpus: number | null; model: string; tasks: number | null; words: string } | null;
  /** In GPUs, or in whole nodes for a job that needs such; as `used` and `bad`. */
  owns: number | null;
  used: number | null;
  unit: "GPU" | "node";
  used_by: Holder[];
  /** Jobs beside those in `used_by`. */
  more: number;
  bad: number | null;
  ahead: number | null;
  /** Milliseconds since the epoch. */
  expected_start: number | null;
  opportunistic_now: boolean;
}

/** Details are open data: what has not the shape it should have is left out. */
export function numbersOf({ details }: Reason): Numbers {
  return {
    needs: needsOf(details["needs"]),
    ...owned(details),
    used_by: list(details["used_by"]).flatMap(holderOf),
    more: number(details["more"]) ?? 0,
    ahead: number(details["ahead"]),
    expected_start: moment(details["expected_start"]),
    opportunistic_now: details["opportunistic_now"] === true,
  };
}

function needsOf(value: unknown): Numbers["needs"] {
  if (!isRecord(value)) return null;
  return {
    gpus: number(value["gpus"]),
    model: text(value["gpu_model"]),
    tasks: number(value["tasks"]),
    words: text(value["shape"]),
  };
}

function owned(details: Reason["details"]): Pick<Numbers, "owns" | "used" | "bad" | "unit"> {
  const { needs, nodes } = details;
  const whole = isRecord(needs) && needs["whole_nodes"] === true;
  const inNodes = whole && isRecord(nodes) && number(nodes["owns"]) ? nodes : null;
  const { owns, used, bad } = inNodes ?? details;
  return {
    owns: number(owns),
    used: number(used),
    bad: number(bad),
    unit: inNodes ? "node" : "GPU",
  };
}

function holderOf(value: unknown): Holder[] {
  if (!isRecord(value) || number(value["gpus"]) === null) return [];
  return [
    {
      id: text(value["gang"]),
      name: text(value["name"]) || "another job",
      gpus: number(value["gpus"]) ?? 0,
      until: moment(value["until"]),
    },
  ];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** The API's seconds as milliseconds. */
function moment(value: unknown): number | null {
  const seconds = number(value);
  return seconds === null ? null : seconds * 1000;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
