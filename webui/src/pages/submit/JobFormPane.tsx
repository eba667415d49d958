import { MultiSelect, NumberInput, Select, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { images } from "@/api/admin";
import { jobSchema } from "@/api/jobs";
import { me } from "@/api/session";
import { storages } from "@/api/storages";
import { virtualClusters } from "@/api/virtualClusters";
import { imagesFor } from "@/features/images/labels";
import { schemaAt } from "@/features/yaml-editor/schema/lookup";
import type { Schema } from "@/features/yaml-editor/schema/types";
import {
  type Path,
  readForm,
  type RoleForm,
  withCommands,
  withField,
  withImage,
  withStorages,
  withVirtualCluster,
} from "./jobForm";
import { ImagePicker } from "./ImagePicker";
import css from "./JobFormPane.module.css";

interface Props {
  text: string;
  onText: (text: string) => void;
}

const CLASSES = [
  { value: "prod", label: "prod: goes first" },
  { value: "test", label: "test: the default" },
  { value: "oppo", label: "oppo: on idle GPUs, preempted when their owners need them" },
];

/** The common fields of the job file beside its text. Each change is written into the text at its
 * place, and what is typed there shows here. */
export function JobFormPane({ text, onText }: Props) {
  const { data: user } = useQuery(me);
  const { data: schema } = useQuery(jobSchema);
  const { data: catalogue = [] } = useQuery(images);
  const { data: mountable = [] } = useQuery(storages);
  const { data: vcs = [] } = useQuery(virtualClusters);
  const defaultImages = new Map(vcs.map((vc) => [vc.name, vc.default_image]));
  const form = readForm(text);
  if (!form) {
    return (
      <section className={css.pane} aria-label="Form">
        <p role="status">
          The text is not valid YAML. Mend what the editor marks; then the form shows its fields.
        </p>
      </section>
    );
  }
  const docs = (path: Path) => description(schema, path);
  const set = (path: Path, value: unknown) => onText(withField(text, path, value));
  return (
    <section className={css.pane} aria-label="Form">
      <TextInput
        label="Name"
        title={docs(["name"])}
        value={form.name}
        onChange={(event) => set(["name"], event.currentTarget.value)}
      />
      <Select
        label="Virtual cluster"
        title={docs(["defaults", "virtualCluster"])}
        data={user?.virtual_clusters.map((vc) => vc.name) ?? []}
        value={form.virtualCluster || null}
        onChange={(vc) => onText(withVirtualCluster(text, vc, defaultImages))}
      />
      <ImagePicker
        title={docs(["prerequisites", 0, "uri"])}
        images={imagesFor(catalogue, form.virtualCluster)}
        value={form.image}
        onChange={(image) => onText(withImage(text, image))}
      />
      {form.roles.map((role) => (
        <RoleFields
          key={role.name}
          role={role}
          docs={docs}
          onSet={set}
          onCommands={(commands) => onText(withCommands(text, role.name, commands))}
        />
      ))}
      <MultiSelect
        label="Storages"
        title={docs(["extras", "storages"])}
        data={[...new Set([...mountable.map((one) => one.name), ...form.storages])]}
        value={form.storages}
        onChange={(names) => onText(withStorages(text, names))}
      />
      <Select
        label="Priority class"
        title={docs(["extras", "hivedScheduler", "jobPriorityClass"])}
        data={CLASSES}
        value={form.priorityClass || "test"}
        onChange={(name) =>
          set(["extras", "hivedScheduler", "jobPriorityClass"], name ?? undefined)
        }
        allowDeselect={false}
      />
      <Amount
        label="Retries after a failure"
        title={docs(["jobRetryCount"])}
        value={form.retries}
        onChange={(value) => set(["jobRetryCount"], value)}
      />
      {form.secrets.length > 0 ? (
        <p className="dim">Secrets: {form.secrets.join(", ")}. Their values stand in the text.</p>
      ) : null}
    </section>
  );
}

type Amounts = "instances" | "gpu" | "cpu" | "memoryMB";

interface RoleProps {
  role: RoleForm;
  docs: (path: Path) => string | undefined;
  onSet: (path: Path, value: unknown) => void;
  onCommands: (commands: string) => void;
}

function RoleFields({ role, docs, onSet, onCommands }: RoleProps) {
  const path = ["taskRoles", role.name];
  const amounts: [Amounts, string, Path][] = [
    ["instances", "Tasks", [...path, "instances"]],
    ["gpu", "GPUs of each", [...path, "resourcePerInstance", "gpu"]],
    ["cpu", "CPUs of each", [...path, "resourcePerInstance", "cpu"]],
    ["memoryMB", "MiB of memory of each", [...path, "resourcePerInstance", "memoryMB"]],
  ];
  return (
    <fieldset className={css.role}>
      <legend>Task role {role.name}</legend>
      <div className={css.amounts}>
        {amounts.map(([name, label, at]) => (
          <Amount
            key={name}
            label={label}
            title={docs(at)}
            value={role[name]}
            onChange={(value) => onSet(at, value)}
          />
        ))}
      </div>
      <Textarea
        label="Commands, one in each line"
        title={docs([...path, "commands"])}
        autosize
        minRows={2}
        maxRows={10}
        classNames={{ input: css.commands }}
        value={role.commands}
        onChange={(event) => onCommands(event.currentTarget.value)}
      />
    </fieldset>
  );
}

interface AmountProps {
  label: string;
  title: string | undefined;
  value: number;
  onChange: (value: number) => void;
}

/** A field that is being emptied keeps its value until a number stands there. */
function Amount({ label, title, value, onChange }: AmountProps) {
  return (
    <NumberInput
      label={label}
      title={title}
      min={label.startsWith("Retries") ? -2 : 0}
      value={value}
      onChange={(next) => {
        if (typeof next === "number" && next !== value) onChange(next);
      }}
    />
  );
}

function description(schema: Schema | undefined, path: Path): string | undefined {
  return schema && schemaAt(schema, path)?.description;
}
