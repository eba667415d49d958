/** A policy with its parameters, in words. */
export function policyLabel(policy: string): string {
  const [name = "", parameters] = policy.split(":", 2);
  const words = name.replaceAll("_", " ");
  return parameters ? `${words} (${parameters})` : words;
}

/** The share of the jobs that ended, in percent. */
export function percentDone({
  jobs_ended,
  jobs_total,
}: {
  jobs_ended: number;
  jobs_total: number;
}): number {
  return jobs_total ? Math.min(100, Math.round((100 * jobs_ended) / jobs_total)) : 0;
}
