import { Button, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { dataset, DATASET_LISTS, deleteDataset, describeDataset } from "@/api/datasets";
import type { Dataset } from "@/api/types";
import { formatBytes, pluralize } from "@/format/numbers";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { Breadcrumb } from "@/ui/Breadcrumb";
import { CopyableCode } from "@/ui/CopyableCode";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { ErrorState } from "@/ui/EmptyState";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./datasets.module.css";

/** One version of a dataset: what it is, where it lies, and how a job gets it. */
export function DatasetPage() {
  const { id } = useParams({ from: "/shell/datasets/$id" });
  const query = useQuery(dataset(id));
  if (query.data) return <Shown found={query.data} />;
  if (query.isPending) return <SkeletonRows rows={4} />;
  return <ErrorState error={query.error} what="dataset" retry={() => void query.refetch()} page />;
}

function Shown({ found }: { found: Dataset }) {
  const [describing, setDescribing] = useState(false);
  const name = `${found.name}@${found.version}`;
  return (
    <>
      <PageHeader
        title={name}
        above={
          <Breadcrumb>
            <Link to="/datasets">Datasets</Link>
          </Breadcrumb>
        }
      >
        {found.may_change ? (
          <>
            <Button
              variant="default"
              leftSection={<Icon name="edit" size={14} />}
              onClick={() => setDescribing(true)}
            >
              Describe
            </Button>
            <Removal found={found} />
          </>
        ) : null}
      </PageHeader>
      <div className={css.page}>
        {found.description ? <p className={css.description}>{found.description}</p> : null}
        <DescriptionList>
          <DescriptionItem name="Virtual cluster">{found.virtual_cluster}</DescriptionItem>
          <DescriptionItem name="Folder">
            <code>
              {found.storage}:{found.path}
            </code>
          </DescriptionItem>
          {found.size === null ? null : (
            <DescriptionItem name="Size when made">
              {formatBytes(found.size)} in {pluralize(found.files ?? 0, "file")}
            </DescriptionItem>
          )}
          <DescriptionItem name="Owner">{found.owner ?? "a user who is gone"}</DescriptionItem>
          <DescriptionItem name="Made">
            <RelativeTime at={found.created_at} />
          </DescriptionItem>
          {found.job_id ? (
            <DescriptionItem name="Of the job">
              <Link to="/jobs/$id" params={{ id: found.job_id }} className="link">
                {found.job_name}
              </Link>
            </DescriptionItem>
          ) : null}
        </DescriptionList>
        <Usage name={name} folder={found.name} vc={found.virtual_cluster} />
      </div>
      {describing ? <Describing found={found} onClose={() => setDescribing(false)} /> : null}
    </>
  );
}

function Usage({ name, folder, vc }: { name: string; folder: string; vc: string }) {
  const yaml = `extras:\n  skep:\n    datasets: [${name}]`;
  return (
    <section>
      <h2 className={css.heading}>Use in a job</h2>
      <CopyableCode text={yaml} label="Lines of a job file" />
      <p className={css.where}>
        Tasks of {vc} find it at <code>/datasets/{folder}</code>, and cannot write to it.
      </p>
    </section>
  );
}

function Removal({ found }: { found: Dataset }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const removal = useMutation({
    mutationFn: () => deleteDataset(found.id),
    onSuccess: async () => {
      await navigate({ to: "/datasets" });
      await queries.invalidateQueries({ queryKey: DATASET_LISTS });
    },
    onError: (error) => notifyError(error, "The dataset was not removed"),
  });
  return (
    <ConfirmButton
      question={`Remove ${found.name}@${found.version}?`}
      explanation="Its files stay where they are. Jobs that start from then on cannot mount it by this name."
      verb="Remove"
      busy={removal.isPending}
      onConfirm={() => removal.mutate()}
    >
      Remove
    </ConfirmButton>
  );
}

function Describing({ found, onClose }: { found: Dataset; onClose: () => void }) {
  const queries = useQueryClient();
  const [text, setText] = useState(found.description);
  const saving = useMutation({
    mutationFn: () => describeDataset(found.id, text),
    onSuccess: async () => {
      await Promise.all(
        [dataset(found.id).queryKey, DATASET_LISTS].map((queryKey) =>
          queries.invalidateQueries({ queryKey }),
        ),
      );
      onClose();
    },
  });
  return (
    <FormDialog open title="Describe it" verb="Save" mutation={saving} onClose={onClose}>
      <Textarea
        label="Description"
        autosize
        minRows={4}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
