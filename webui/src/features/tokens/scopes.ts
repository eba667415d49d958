import type { TokenScope } from "@/api/types";

/** The day on which a token ends. */
export const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

export const SCOPE_LABELS: Record<TokenScope, string> = {
  read: "read only",
  submit: "jobs and files",
  admin: "full access",
};

/** The same in full, for who chooses. */
export const SCOPE_CHOICES: Record<TokenScope, string> = {
  read: "Read only",
  submit: "Read, and work with jobs and files",
  admin: "Everything that you may do",
};

const DAY = 86_400;
export const MONTH_S = 30 * DAY;
export const LIFETIMES = [
  { value: String(7 * DAY), label: "One week" },
  { value: String(MONTH_S), label: "30 days" },
  { value: String(90 * DAY), label: "90 days" },
  { value: String(365 * DAY), label: "One year" },
];
