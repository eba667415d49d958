import { SegmentedControl } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { updateVirtualCluster, virtualClusters } from "@/api/tenancy";
import type { VirtualCluster, Visibility } from "@/api/types";
import { tellDone, tellError } from "@/ui/notify";
import css from "./Settings.module.css";

const CHOICES: { value: Visibility; label: string }[] = [
  { value: "owner", label: "Their owners" },
  { value: "members", label: "All members" },
  { value: "everyone", label: "Everybody" },
];

/** Who reads the jobs of a virtual cluster that do not say otherwise. */
export function JobVisibility({ vc }: { vc: VirtualCluster }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (job_visibility: Visibility) => updateVirtualCluster(vc.name, { job_visibility }),
    onSuccess: () => tellDone("Who sees its jobs is changed"),
    onError: (error) => tellError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
  return (
    <section>
      <h2 className={css.title}>Who sees its jobs</h2>
      <p className={css.about}>
        Files, commands, logs and metrics. Managers and administrators always do; the owner of a job
        may open or close a single one.
      </p>
      <SegmentedControl
        aria-label="Who sees its jobs"
        data={CHOICES}
        value={change.isPending ? change.variables : vc.job_visibility}
        onChange={(value) => change.mutate(value as Visibility)}
      />
    </section>
  );
}
