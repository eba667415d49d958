import { ActionIcon, Button, NumberInput, Switch, Tooltip } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { components } from "@/api/schema";
import { limits, resetLimit, setLimit } from "@/api/virtualClusters";
import { capitalize } from "@/format/names";
import { formatBytes } from "@/format/numbers";
import { formatDuration } from "@/format/time";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { notifyError } from "@/ui/notify";
import css from "./SettingsTab.module.css";

type Limit = components["schemas"]["Limit"];

const EFFECTS = [
  {
    effect: "wait",
    title: "Jobs above these limits wait",
    about: "Jobs of other users start before them.",
  },
  {
    effect: "submit",
    title: "Jobs above these limits are refused when they are submitted",
    about: "",
  },
  { effect: "run", title: "While a job runs", about: "" },
] as const;

/** What the jobs and users of a virtual cluster may use at most, by what happens beyond it. Its VC
 * admins set those of the team; administrators set all. */
export function VirtualClusterLimits({ name }: { name: string }) {
  const query = useQuery(limits(name));
  const { data } = query;
  const [editing, setEditing] = useState<Limit | null>(null);
  if (!data && !isUnread(query)) return null;
  return (
    <section aria-labelledby="limits">
      <h2 className={css.title} id="limits">
        Limits
      </h2>
      <p className={css.about}>A new value applies from now on; jobs that run keep running.</p>
      <ReadNote query={query} what="list of its limits" />
      {EFFECTS.map(({ effect, title, about }) => (
        <LimitTable
          key={effect}
          title={title}
          about={about}
          limits={data?.limits.filter((limit) => limit.effect === effect) ?? []}
          onEdit={setEditing}
        />
      ))}
      {editing ? <LimitDialog vc={name} limit={editing} onClose={() => setEditing(null)} /> : null}
    </section>
  );
}

function LimitTable({
  title,
  about,
  limits: shown,
  onEdit,
}: {
  title: string;
  about: string;
  limits: Limit[];
  onEdit: (limit: Limit) => void;
}) {
  if (shown.length === 0) return null;
  return (
    <table className={css.limits}>
      <caption>
        {title}
        {about ? <span className={css.hint}>{about}</span> : null}
      </caption>
      <tbody>
        {shown.map((limit) => (
          <tr key={limit.name}>
            <th scope="row">
              {limitLabel(limit.name)}
              <span className={css.hint}>{limit.description}</span>
              {limit.used === null ? null : (
                <span className={css.hint}>{limitUse(limit, limit.used)}</span>
              )}
              {limit.may_set ? null : <span className={css.hint}>Set by administrators.</span>}
            </th>
            <td className="num" data-set={limit.is_set || undefined}>
              {limitValue(limit, limit.value)}
            </td>
            <td>
              {limit.may_set ? (
                <Tooltip label="Change">
                  <ActionIcon
                    size="sm"
                    aria-label={`Change ${limitLabel(limit.name)}`}
                    onClick={() => onEdit(limit)}
                  >
                    <Icon name="edit" size={13} />
                  </ActionIcon>
                </Tooltip>
              ) : null}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Of limits per user or job, the use of the one with the most. */
function limitUse(limit: Limit, used: number): string {
  const shown = limitValue({ ...limit, is_open: false }, used);
  return /_per_(user|job)$/.test(limit.name)
    ? `Highest use now: ${shown}.`
    : `In use now: ${shown}.`;
}

function LimitDialog({ vc, limit, onClose }: { vc: string; limit: Limit; onClose: () => void }) {
  const queries = useQueryClient();
  const [value, setValue] = useState<number | string>(limit.value);
  const onSuccess = async () => {
    await queries.invalidateQueries({ queryKey: limits(vc).queryKey });
    onClose();
  };
  const saving = useMutation({
    mutationFn: () => setLimit(vc, limit.name, Number(value)),
    onSuccess,
  });
  const resetting = useMutation({
    mutationFn: () => resetLimit(vc, limit.name),
    onSuccess,
    onError: (error) => notifyError(error),
  });
  return (
    <FormDialog open title={limitLabel(limit.name)} verb="Set" mutation={saving} onClose={onClose}>
      <p className={css.about}>{limit.description}</p>
      {limit.unit === "switch" ? (
        <Switch
          label="Allowed"
          checked={Number(value) === 1}
          onChange={(event) => setValue(event.currentTarget.checked ? 1 : 0)}
        />
      ) : (
        <NumberInput
          label={`Value (${limit.unit})`}
          description={limitRange(limit)}
          data-autofocus
          required
          withAsterisk={false}
          min={limit.minimum}
          max={limit.maximum}
          allowDecimal={false}
          allowNegative={limit.minimum < 0}
          thousandSeparator=","
          value={value}
          onChange={setValue}
        />
      )}
      {limit.is_set ? (
        <Button
          variant="subtle"
          color="gray"
          loading={resetting.isPending}
          onClick={() => resetting.mutate()}
        >
          Return to the default ({limitValue(limit, limit.default)})
        </Button>
      ) : null}
    </FormDialog>
  );
}

function limitRange({ minimum, maximum, default: usual, is_open }: Limit): string {
  const number = (value: number) => value.toLocaleString("en");
  const normal = is_open ? "no limit" : number(usual);
  return `${number(minimum)} to ${number(maximum)}; the default is ${normal}`;
}

function limitLabel(name: string): string {
  const words = name
    .replace(/_(mb|bytes|s)\b/, "")
    .replaceAll("_bytes", "")
    .replaceAll("_", " ")
    .replace(/\bgpus\b/, "GPUs")
    .replace(/\brdma\b/, "InfiniBand (RDMA)");
  return capitalize(words);
}

const SIZES: Record<string, number> = { bytes: 1, MiB: 1024 * 1024 };

function limitValue({ unit, is_open, default: usual }: Limit, value: number): string {
  if (is_open && value === usual) return "no limit";
  if (unit === "seconds") return formatDuration(value);
  if (unit === "switch") return value ? "allowed" : "not allowed";
  const size = SIZES[unit];
  if (size !== undefined) return formatBytes(value * size);
  if (unit === "priority") return value.toLocaleString("en");
  return value === 1 ? `1 ${unit.replace(/s$/, "")}` : `${value.toLocaleString("en")} ${unit}`;
}
