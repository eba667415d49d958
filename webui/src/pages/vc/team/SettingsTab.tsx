import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { cells } from "@/api/cells";
import { errorMessage } from "@/api/errors";
import type { Cells, VirtualCluster, Visibility } from "@/api/types";
import { deleteVirtualCluster, updateVirtualCluster, virtualClusters } from "@/api/virtualClusters";
import { ImageRules } from "@/features/registries/ImageRules";
import { RegistryCredentials } from "@/features/registries/RegistryCredentials";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { LinkButton } from "@/ui/LinkButton";
import { notifyError, notifySuccess } from "@/ui/notify";
import { QueuePolicy } from "./QueuePolicy";
import { QuotaForm } from "./QuotaForm";
import { VirtualClusterLimits } from "./VirtualClusterLimits";
import css from "./SettingsTab.module.css";

/** For its VC admins: who sees its jobs, and its limits. For administrators also what it owns, and
 * its end. */
export function SettingsTab({ vc, admin }: { vc: VirtualCluster; admin: boolean }) {
  const { data: shapes } = useQuery(cells);
  return (
    <div className={css.settings}>
      <JobVisibility vc={vc} />
      <DefaultImage vc={vc} />
      <QueuePolicy vc={vc} admin={admin} />
      <VirtualClusterLimits name={vc.name} />
      <ImageRules vc={vc.name} />
      <RegistryCredentials vc={vc.name} />
      {admin ? <OwnedCells vc={vc} shapes={shapes} /> : null}
    </div>
  );
}

function OwnedCells({ vc, shapes }: { vc: VirtualCluster; shapes: Cells | undefined }) {
  return (
    <>
      <section>
        <h2 className={css.title}>GPUs by number</h2>
        <p className={css.about}>
          So many GPUs of a model, in the largest cells that fit. Whole cells (two nodes in one
          rack, half a node, a certain node) are given in the cells editor.
        </p>
        <QuotaForm vc={vc} />
      </section>
      <section>
        <h2 className={css.title}>Cells</h2>
        <p className={css.about}>{cellsOwned(vc, shapes)}</p>
        <LinkButton to="/cells" variant="default">
          Edit the cells of all virtual clusters
        </LinkButton>
      </section>
      <DeleteVc vc={vc} />
    </>
  );
}

function cellsOwned({ cells: owned, pins }: VirtualCluster, shapes: Cells | undefined): string {
  const levels = shapes?.chains.flatMap((chain) => chain.levels) ?? [];
  const words = (type: string) => levels.find((level) => level.type === type)?.words ?? type;
  const parts = [
    ...owned.map(({ number, cell_type }) => `${number} × ${words(cell_type)}`),
    ...pins.map((pin) => `pinned cell ${pin}`),
  ];
  return parts.length > 0 ? `Owns ${parts.join(", ")}.` : "Owns no cells of a certain type.";
}

function DeleteVc({ vc }: { vc: VirtualCluster }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const deletion = useMutation({
    mutationFn: () => deleteVirtualCluster(vc.name),
    onSuccess: async () => {
      notifySuccess(`${vc.name} is deleted`);
      await navigate({ to: "/virtual-clusters" });
      return queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
    },
    onError: (error) => notifyError(error, "The virtual cluster was not deleted"),
  });
  return (
    <section>
      <h2 className={css.title}>Delete</h2>
      <ConfirmButton
        question={`Delete ${vc.name}?`}
        explanation="Its GPUs become free to give to others. This is possible only while it has no jobs."
        verb="Delete"
        busy={deletion.isPending}
        onConfirm={() => deletion.mutate()}
      >
        Delete this virtual cluster
      </ConfirmButton>
    </section>
  );
}

const CHOICES: { value: Visibility; label: string }[] = [
  { value: "owner", label: "Owners" },
  { value: "members", label: "Members" },
  { value: "everyone", label: "Everyone" },
];

/** Who reads the jobs of a virtual cluster that do not say otherwise. */
function JobVisibility({ vc }: { vc: VirtualCluster }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (job_visibility: Visibility) => updateVirtualCluster(vc.name, { job_visibility }),
    onSuccess: () => notifySuccess("Job visibility changed"),
    onError: (error) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
  return (
    <section>
      <h2 className={css.title}>Job visibility</h2>
      <p className={css.about}>
        Who sees the files, commands, logs and metrics of jobs. VC admins and administrators always
        do. Owners can choose otherwise for a single job.
      </p>
      <SegmentedControl
        aria-label="Job visibility"
        data={CHOICES}
        value={change.isPending ? change.variables : vc.job_visibility}
        onChange={(value) => change.mutate(value as Visibility)}
      />
    </section>
  );
}

/** What forms and `skep run` put into a job that is written without an image. */
function DefaultImage({ vc }: { vc: VirtualCluster }) {
  const queries = useQueryClient();
  const [image, setImage] = useState(vc.default_image);
  const change = useMutation({
    mutationFn: () => updateVirtualCluster(vc.name, { default_image: image.trim() }),
    onSuccess: () => notifySuccess("Default image changed"),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    change.mutate();
  }
  return (
    <section>
      <h2 className={css.title}>Default image</h2>
      <p className={css.about}>
        For jobs that name no image: the examples of <i>New job</i>, and <code>skep run</code>.
      </p>
      <form onSubmit={submit} className={css.line}>
        <TextInput
          aria-label="Default image"
          placeholder="A name of the catalogue, or a reference"
          value={image}
          onChange={(event) => setImage(event.currentTarget.value)}
          error={change.error ? errorMessage(change.error) : null}
          className={css.wide}
        />
        <Button
          type="submit"
          variant="default"
          disabled={image.trim() === vc.default_image}
          loading={change.isPending}
        >
          Save
        </Button>
      </form>
    </section>
  );
}
