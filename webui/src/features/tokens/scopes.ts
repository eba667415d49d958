import type { TokenScope } from "@/api/types";

/** The day on which a token ends. */
export const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

export const SCOPE_LABELS: Record<TokenScope, string> = {
  read: "read only",
  submit: "jobs and files",
  admin: "full access",
};
