import { ActionIcon, Tooltip } from "@mantine/core";
import { useState } from "react";
import type { JobSummary, Me } from "@/api/types";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { useStop } from "./useStop";
import { mayStop } from "./rights";

export function StopRow({ job, user }: { job: JobSummary; user: Me | null }) {
  const [asking, setAsking] = useState(false);
  const stopping = useStop(job.id);
  if (!mayStop(job, user)) return null;
  return (
    <>
      <Tooltip label="Stop">
        <ActionIcon
          size="sm"
          c="dimmed"
          aria-label={`Stop ${job.name}`}
          loading={stopping.isPending}
          onClick={() => setAsking(true)}
        >
          <Icon name="stop" size={14} />
        </ActionIcon>
      </Tooltip>
      <Confirm
        open={asking}
        question={`Stop ${job.name}?`}
        explanation="Its containers are told to end and are killed after their grace time. A stopped job cannot go on; its logs stay."
        verb="Stop the job"
        onConfirm={() => stopping.mutate()}
        onClose={() => setAsking(false)}
      />
    </>
  );
}
