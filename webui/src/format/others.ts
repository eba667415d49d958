/** How the page speaks of what its reader may not know by name. */

/** Of a virtual cluster that the reader does not belong to. */
export const ANOTHER_VC = "another virtual cluster";

/** A job that the reader may not see, of this virtual cluster; null: of another one. */
export function jobOf(vc: string | null): string {
  return vc === null ? "another team's job" : `another job of ${vc}`;
}
