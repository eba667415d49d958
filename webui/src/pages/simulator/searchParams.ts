import { textParam } from "@/format/searchParams";

/** What the address of the form holds: whose jobs, and a comma list of policies. */
export interface SimulatorSearch {
  vc?: string;
  policies?: string;
}

export function simulatorSearch(search: Record<string, unknown>): SimulatorSearch {
  return { vc: textParam(search["vc"]), policies: textParam(search["policies"]) };
}
