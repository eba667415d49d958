import { Button, NumberInput, SegmentedControl, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { cells } from "@/api/cells";
import { errorMessage } from "@/api/errors";
import type { Cells, Policy, PolicyParameter, VirtualCluster, Visibility } from "@/api/types";
import {
  deleteVirtualCluster,
  policies,
  updateVirtualCluster,
  virtualClusters,
} from "@/api/virtualClusters";
import { ImageRules } from "@/features/registries/ImageRules";
import { RegistryCredentials } from "@/features/registries/RegistryCredentials";
import { capitalize } from "@/format/names";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { LinkButton } from "@/ui/LinkButton";
import { notifyError, notifySuccess } from "@/ui/notify";
import { PolicyCheck } from "./PolicyCheck";
import { PolicyForecast } from "./PolicyForecast";
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

type Choice = VirtualCluster["policy"];

/** In which order the jobs of the virtual cluster start; administrators choose it. Another policy
 * is tried in a forecast, and then saved. */
function QueuePolicy({ vc, admin }: { vc: VirtualCluster; admin: boolean }) {
  const queries = useQueryClient();
  const { data } = useQuery(policies);
  const [draft, setDraft] = useState<Choice>();
  const change = useMutation({
    mutationFn: (policy: Choice) => updateVirtualCluster(vc.name, { policy }),
    onSuccess: () => {
      setDraft(undefined);
      notifySuccess("The order of its queue is changed");
    },
    onError: (error) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
  if (!data) return null;
  const chosen = draft ?? vc.policy;
  const known = data.policies.find((policy) => policy.name === chosen.name);
  return (
    <section>
      <h2 className={css.title}>Order of the queue</h2>
      <p className={css.about}>
        {known?.description} {admin ? "" : "Set by administrators."}
      </p>
      <Select
        aria-label="Order of the queue"
        data={data.policies.map((policy) => ({ value: policy.name, label: labelOf(policy) }))}
        value={chosen.name}
        disabled={!admin}
        allowDeselect={false}
        onChange={(name) => name && setDraft(name === vc.policy.name ? undefined : of(name))}
      />
      {vc.may_manage ? <PolicyCheck vc={vc.name} policy={chosen} /> : null}
      {vc.may_manage ? (
        <LinkButton
          to="/simulator"
          search={{ vc: vc.name, policies: comparison(chosen.name) }}
          variant="default"
          size="xs"
          mt="xs"
        >
          Compare with another order, on the jobs of the last month
        </LinkButton>
      ) : null}
      {known?.parameters.map((parameter) => (
        <PolicyField
          key={`${known.name} ${parameter.name} ${draft ? "draft" : "saved"}`}
          parameter={parameter}
          value={chosen.parameters[parameter.name] ?? parameter.default}
          disabled={!admin}
          onChange={(value) =>
            setDraft({
              name: known.name,
              parameters: { ...chosen.parameters, [parameter.name]: value },
            })
          }
        />
      ))}
      {draft ? (
        <>
          <PolicyForecast key={JSON.stringify(draft)} vc={vc.name} policy={draft} />
          <div className={css.line}>
            <Button loading={change.isPending} onClick={() => change.mutate(draft)}>
              Save
            </Button>
            <Button variant="default" onClick={() => setDraft(undefined)}>
              Cancel
            </Button>
          </div>
        </>
      ) : null}
    </section>
  );
}

function of(name: string): Choice {
  return { name, parameters: {} };
}

/** The chosen policy first, and one that is not. */
function comparison(chosen: string): string {
  return `${chosen},${chosen === "srtf" ? "fifo" : "srtf"}`;
}

function labelOf(policy: Policy): string {
  const words = policy.name.replaceAll("_", " ");
  return policy.is_default ? `${words} (default)` : words;
}

/** "ageing_s" as "Ageing (seconds)". */
function parameterLabel(name: string): string {
  const [words, unit] = name.endsWith("_s") ? [name.slice(0, -2), " (seconds)"] : [name, ""];
  return capitalize(words.replaceAll("_", " ")) + unit;
}

function PolicyField({
  parameter,
  value,
  disabled,
  onChange,
}: {
  parameter: PolicyParameter;
  value: unknown;
  disabled: boolean;
  onChange: (value: string | number) => void;
}) {
  const common = {
    label: parameterLabel(parameter.name),
    description: parameter.description,
    disabled,
    mt: "sm",
  };
  if (parameter.choices.length > 0) {
    return (
      <Select
        {...common}
        data={parameter.choices}
        value={String(value)}
        allowDeselect={false}
        onChange={(choice) => choice && onChange(choice)}
      />
    );
  }
  if (parameter.type === "string") {
    return (
      <TextInput
        {...common}
        defaultValue={String(value)}
        onBlur={(event) => {
          const typed = event.currentTarget.value.trim();
          if (typed !== String(value)) onChange(typed);
        }}
      />
    );
  }
  return (
    <NumberInput
      {...common}
      defaultValue={Number(value)}
      min={parameter.minimum ?? undefined}
      max={parameter.maximum ?? undefined}
      allowDecimal={parameter.type === "number"}
      onBlur={(event) => {
        const typed = Number(event.currentTarget.value);
        if (event.currentTarget.value !== "" && typed !== Number(value)) onChange(typed);
      }}
    />
  );
}
