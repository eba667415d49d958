import { Button, Loader, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useMemo, useState } from "react";
import { me } from "@/api/session";
import type { Template } from "@/api/templates";
import type { Me } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { CheckResultPanel } from "@/features/job-file/CheckResultPanel";
import { fromTemplate } from "@/features/job-file/jobForm";
import { losesStorage, useSubmit } from "@/features/job-file/useSubmit";
import { Dialog } from "@/ui/Dialog";
import css from "./templates.module.css";

interface Props {
  template: Template;
  /** What the reader changed of them. */
  parameters: Record<string, string | number | boolean>;
  onEdit: () => void;
  onClose: () => void;
}

/** Checks a template with its parameters in a virtual cluster of the reader, says when the job would
 * start, and submits it. */
export default function SubmitTemplateDialog(props: Props) {
  const { data: user } = useQuery(me);
  const { data: known } = useQuery({ ...virtualClusters, enabled: user?.is_admin ?? false });
  if (!user) return null;
  const names = user.is_admin && known ? known.map(({ name }) => name) : submittable(user);
  return names.length > 0 ? <Checked {...props} names={names} /> : null;
}

function submittable(user: Me): string[] {
  return user.virtual_clusters.filter(({ role }) => role !== "viewer").map(({ name }) => name);
}

function Checked({ template, parameters, onEdit, onClose, names }: Props & { names: string[] }) {
  const fixed = template.virtual_cluster;
  const [chosen, setChosen] = useState<string | null>(null);
  const vc = chosen ?? (fixed && names.includes(fixed) ? fixed : (names[0] ?? ""));
  const text = useMemo(
    () => fromTemplate(template.text, parameters, vc),
    [template.text, parameters, vc],
  );
  const { verdict, failure, ...act } = useSubmit(text, onClose);
  const current = verdict?.text === text ? verdict : null;
  const check = useEffectEvent(act.check);
  useEffect(() => check(), [text]);
  const blocked = !current?.result.valid || (losesStorage(current.result) && !act.lossAccepted);
  return (
    <Dialog opened onClose={onClose} title={`Submit ${template.title}`} size={560}>
      <Select
        label="Virtual cluster"
        data={names}
        value={vc}
        onChange={setChosen}
        allowDeselect={false}
        searchable={names.length > 8}
      />
      <div className={css.verdict} aria-busy={act.checking}>
        {act.checking || (!current && !failure) ? (
          <p className={css.waiting} role="status">
            <Loader size={14} aria-hidden /> Checking whether {vc} can run it, and when it would
            start…
          </p>
        ) : (
          <CheckResultPanel
            verdict={current}
            failure={failure}
            lossAccepted={act.lossAccepted}
            onAcceptLoss={act.acceptLoss}
            onGoTo={onEdit}
          />
        )}
      </div>
      <div className={css.buttons}>
        <Button variant="subtle" onClick={onEdit}>
          Edit it first
        </Button>
        {failure ? (
          <Button variant="default" onClick={act.check}>
            Check again
          </Button>
        ) : null}
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <Button loading={act.submitting} disabled={act.checking || blocked} onClick={act.submit}>
          Submit
        </Button>
      </div>
    </Dialog>
  );
}
