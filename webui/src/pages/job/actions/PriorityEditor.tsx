import { Button, NumberInput, Popover, UnstyledButton } from "@mantine/core";
import { type FormEvent, type ReactNode, useState } from "react";
import { setPriority } from "@/api/jobs";
import type { Job } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { Icon } from "@/ui/Icon";
import { useJobChange } from "./useJobChange";
import css from "./actions.module.css";

const DEFAULT = 10; // of a job that waits as opportunistic and gets its guarantee back

/** The rank of a job in its virtual cluster, changed in place by who may. */
export function PriorityEditor({ job }: { job: Job }) {
  const words = (
    <>
      {job.priority_class} <span className="dim num">({job.priority})</span>
    </>
  );
  if (!mayChange(job)) return words;
  return (
    <PriorityPopover job={job}>
      {(open) => (
        <UnstyledButton className={css.choice} title="Change the priority" onClick={open}>
          {words} <Icon name="down" size={11} />
        </UnstyledButton>
      )}
    </PriorityPopover>
  );
}

/** The same as a button, below the sentence that says why a job waits. */
export function PriorityButton({ job }: { job: Job }) {
  if (!mayChange(job) || job.state !== "WAITING" || job.placed_at !== null) return null;
  return (
    <PriorityPopover job={job}>
      {(open) => (
        <Button size="compact-sm" variant="default" onClick={open}>
          {job.priority < 0 ? "Give its guarantee back" : "Change its priority"}
        </Button>
      )}
    </PriorityPopover>
  );
}

function mayChange({ may_prioritise, state }: Job): boolean {
  return may_prioritise && !isFinished(state);
}

interface Props {
  job: Job;
  children: (open: () => void) => ReactNode;
}

function PriorityPopover({ job, children }: Props) {
  const [draft, setDraft] = useState<number | string | null>(null);
  const change = useJobChange(
    (priority: number) => setPriority(job.id, priority),
    ({ name, priority }) => `${name} has priority ${priority}`,
  );

  function submit(event: FormEvent) {
    event.preventDefault();
    if (draft !== null) change.mutate(Number(draft), { onSuccess: () => setDraft(null) });
  }
  return (
    <Popover opened={draft !== null} onChange={(open) => !open && setDraft(null)} trapFocus>
      <Popover.Target>
        {children(() => setDraft(Math.max(job.priority, 0) || DEFAULT))}
      </Popover.Target>
      <Popover.Dropdown>
        <form onSubmit={submit} className={css.rank}>
          <NumberInput
            label="Priority"
            description="0 to 1000: higher ones start first"
            min={0}
            max={1000}
            allowDecimal={false}
            allowNegative={false}
            value={draft ?? job.priority}
            onChange={setDraft}
            required
            withAsterisk={false}
          />
          <Button type="submit" loading={change.isPending}>
            Set
          </Button>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
