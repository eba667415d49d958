import { ActionIcon, Button, MultiSelect, Select, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { images } from "@/api/admin";
import { savedImages } from "@/api/imageSaves";
import { jobSchema } from "@/api/jobs";
import { me } from "@/api/session";
import { storages } from "@/api/storages";
import { virtualClusters } from "@/api/virtualClusters";
import { imagesFor } from "@/features/images/labels";
import { schemaAt } from "@/features/yaml-editor/schema/lookup";
import type { Storage } from "@/api/types";
import type { Schema } from "@/features/yaml-editor/schema/types";
import type { Path } from "@/features/job-file/changeJobFile";
import { AmountField } from "@/features/job-file/AmountField";
import { ParameterField } from "@/features/job-file/ParameterField";
import {
  type JobForm,
  readForm,
  type RoleForm,
  withCommands,
  withField,
  withImage,
  withoutParameter,
  withoutRole,
  withoutSecret,
  withParameter,
  withRole,
  withSecret,
  withStorages,
  withVirtualCluster,
} from "@/features/job-file/jobForm";
import { Icon } from "@/ui/Icon";
import { unreadText } from "@/ui/ReadNote";
import { Adder } from "./Adder";
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
  const imagesQuery = useQuery(images);
  const { data: catalogue = [] } = imagesQuery;
  const { data: saved = [] } = useQuery(savedImages);
  const storagesQuery = useQuery(storages);
  const { data: mountable = [] } = storagesQuery;
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
        saved={saved}
        unread={unreadText(imagesQuery, "catalogue of images")}
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
          onRemove={form.roles.length > 1 ? () => onText(withoutRole(text, role.name)) : null}
        />
      ))}
      <Adder
        label="New task role"
        verb="Add a task role"
        taken={form.roles.map((role) => role.name)}
        pattern={ROLE_NAME}
        onAdd={(name) => onText(withRole(text, name))}
      />
      <MultiSelect
        label="Storages"
        title={docs(["extras", "storages"])}
        description={copiesText(mountable, form.storages)}
        error={unreadText(storagesQuery, "list of storages")}
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
      <AmountField
        label="Retries after a failure"
        title={docs(["jobRetryCount"])}
        min={-2}
        value={form.retries}
        onChange={(value) => set(["jobRetryCount"], value)}
      />
      <Parameters
        values={form.parameters}
        title={docs(["parameters"])}
        text={text}
        onText={onText}
      />
      <Secrets names={form.secrets} text={text} onText={onText} />
    </section>
  );
}

const ROLE_NAME = /^[a-zA-Z_][a-zA-Z0-9_]{0,49}$/;
const SECRET_NAME = /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/;

interface ParametersProps {
  values: JobForm["parameters"];
  title: string | undefined;
  text: string;
  onText: (text: string) => void;
}

/** Values that commands refer to by name. Those that are lists or mappings stay in the text alone. */
function Parameters({ values, title, text, onText }: ParametersProps) {
  const names = Object.keys(values);
  return (
    <fieldset className={css.role} title={title}>
      <legend>Parameters</legend>
      {Object.entries(values).map(([name, value]) => (
        <div key={name} className={css.parameter}>
          <ParameterField
            name={name}
            value={value}
            onChange={(next) => onText(withField(text, ["parameters", name], next))}
          />
          <ActionIcon
            size="sm"
            aria-label={`Remove the parameter ${name}`}
            onClick={() => onText(withoutParameter(text, name))}
          >
            <Icon name="trash" size={14} />
          </ActionIcon>
        </div>
      ))}
      {names.length === 0 ? (
        <p className="dim">
          Values that commands name as <code>{"<% $parameters.NAME %>"}</code>.
        </p>
      ) : null}
      <Adder
        label="New parameter"
        verb="Add a parameter"
        value="Value of the parameter"
        taken={names}
        pattern={SECRET_NAME}
        onAdd={(name, value) => onText(withParameter(text, name, value))}
      />
    </fieldset>
  );
}

interface SecretsProps {
  names: string[];
  text: string;
  onText: (text: string) => void;
}

/** Secrets by their names: values stand in the text, and are stored encrypted. */
function Secrets({ names, text, onText }: SecretsProps) {
  return (
    <fieldset className={css.role}>
      <legend>Secrets</legend>
      {names.length > 0 ? (
        <ul className={css.secrets} aria-label="Secrets">
          {names.map((name) => (
            <li key={name}>
              <code>{`<% $secrets.${name} %>`}</code>
              <ActionIcon
                size="sm"
                aria-label={`Remove the secret ${name}`}
                onClick={() => onText(withoutSecret(text, name))}
              >
                <Icon name="trash" size={14} />
              </ActionIcon>
            </li>
          ))}
        </ul>
      ) : (
        <p className="dim">Values that only containers see, such as a token.</p>
      )}
      <Adder
        label="New secret"
        verb="Add a secret"
        value="Its value"
        hidden
        taken={names}
        pattern={SECRET_NAME}
        onAdd={(name, value) => onText(withSecret(text, name, value))}
      />
    </fieldset>
  );
}

type Amounts = "instances" | "gpu" | "cpu" | "memoryMB";

interface RoleProps {
  role: RoleForm;
  docs: (path: Path) => string | undefined;
  onSet: (path: Path, value: unknown) => void;
  onCommands: (commands: string) => void;
  /** null: a job has at least one role. */
  onRemove: (() => void) | null;
}

function RoleFields({ role, docs, onSet, onCommands, onRemove }: RoleProps) {
  const path = ["taskRoles", role.name];
  const amounts: [Amounts, string, Path][] = [
    ["instances", "Tasks", [...path, "instances"]],
    ["gpu", "GPUs per task", [...path, "resourcePerInstance", "gpu"]],
    ["cpu", "CPUs per task", [...path, "resourcePerInstance", "cpu"]],
    ["memoryMB", "Memory per task (MiB)", [...path, "resourcePerInstance", "memoryMB"]],
  ];
  return (
    <fieldset className={css.role}>
      <legend>Task role {role.name}</legend>
      <div className={css.amounts}>
        {amounts.map(([name, label, at]) => (
          <AmountField
            key={name}
            label={label}
            title={docs(at)}
            min={0}
            value={role[name]}
            onChange={(value) => onSet(at, value)}
          />
        ))}
      </div>
      <Textarea
        label="Commands, one per line"
        title={docs([...path, "commands"])}
        autosize
        minRows={2}
        maxRows={10}
        classNames={{ input: css.commands }}
        value={role.commands}
        onChange={(event) => onCommands(event.currentTarget.value)}
      />
      {onRemove ? (
        <Button
          variant="subtle"
          color="gray"
          aria-label={`Remove the task role ${role.name}`}
          leftSection={<Icon name="trash" size={14} />}
          onClick={onRemove}
        >
          Remove
        </Button>
      ) : null}
    </fieldset>
  );
}

function description(schema: Schema | undefined, path: Path): string | undefined {
  return schema && schemaAt(schema, path)?.description;
}

/** What is different with the buckets among the chosen storages. */
function copiesText(known: Storage[], chosen: string[]): string | undefined {
  const buckets = known.filter((one) => one.type === "s3" && chosen.includes(one.name));
  if (!buckets.length) return undefined;
  const names = buckets.map((one) => one.name).join(", ");
  return `${names}: each task gets a copy, and what it writes goes back when it has ended`;
}
