import { Menu, UnstyledButton } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { job as jobQuery, setVisibility } from "@/api/jobs";
import type { Job, Visibility } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { tellError } from "@/ui/notify";
import css from "./JobFacts.module.css";

const WORDS: Record<Visibility, string> = {
  owner: "owner and managers",
  members: "members",
  everyone: "everybody",
};

/** Who reads the job, changed in place by its owner. */
export function SeenBy({ job }: { job: Job }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (visibility: Visibility | null) => setVisibility(job.id, visibility),
    onSuccess: (changed) => queries.setQueryData(jobQuery(job.id).queryKey, changed),
    onError: (error) => tellError(error),
  });
  if (!job.may_share) return <>{WORDS[job.seen_by]}</>;
  return (
    <Menu position="bottom-start" width={250}>
      <Menu.Target>
        <UnstyledButton className={css.choice} aria-label="Change who sees this job">
          {WORDS[job.seen_by]} <Icon name="down" size={11} />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Who reads its file, logs and metrics</Menu.Label>
        <Menu.Item onClick={() => change.mutate("owner")}>You and the managers only</Menu.Item>
        <Menu.Item onClick={() => change.mutate("members")}>
          All members of {job.virtual_cluster}
        </Menu.Item>
        <Menu.Item onClick={() => change.mutate("everyone")}>Everybody</Menu.Item>
        <Menu.Divider />
        <Menu.Item disabled={job.visibility === null} onClick={() => change.mutate(null)}>
          As {job.virtual_cluster} decides
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
