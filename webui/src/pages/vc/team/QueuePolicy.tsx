import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Policy, PolicyParameter, VirtualCluster } from "@/api/types";
import { policies, updateVirtualCluster, virtualClusters } from "@/api/virtualClusters";
import { byFamily } from "@/features/simulations/labels";
import { capitalize } from "@/format/names";
import { FormattedMessage } from "@/ui/FormattedMessage";
import { LinkButton } from "@/ui/LinkButton";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { notifyError, notifySuccess } from "@/ui/notify";
import { PolicyCheck } from "./PolicyCheck";
import { PolicyForecast } from "./PolicyForecast";
import css from "./SettingsTab.module.css";

type Choice = VirtualCluster["policy"];

/** In which order the jobs of the virtual cluster start; administrators choose it. Another policy
 * is tried in a forecast, and then saved. */
export function QueuePolicy({ vc, admin }: { vc: VirtualCluster; admin: boolean }) {
  const queries = useQueryClient();
  const query = useQuery(policies);
  const { data } = query;
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
  if (!data) {
    return isUnread(query) ? (
      <section>
        <h2 className={css.title}>Order of the queue</h2>
        <ReadNote query={query} what="list of policies" />
      </section>
    ) : null;
  }
  const chosen = draft ?? vc.policy;
  const known = data.policies.find((policy) => policy.name === chosen.name);
  const descriptions = new Map(data.policies.map(({ name, description }) => [name, description]));
  return (
    <section>
      <h2 className={css.title}>Order of the queue</h2>
      <p className={css.about}>
        {known?.description} {admin ? "" : "Set by administrators."}
      </p>
      <Select
        aria-label="Order of the queue"
        data={byFamily(data.policies, labelOf)}
        renderOption={({ option }) => (
          <div>
            {option.label}
            <div className={css.summary}>{firstSentence(descriptions.get(option.value))}</div>
          </div>
        )}
        maxDropdownHeight={420}
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

function firstSentence(description = ""): string {
  return description.split(". ")[0]?.replace(/\.?$/, ".") ?? "";
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
    description: <FormattedMessage text={parameter.description} />,
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
        // A lone sign is no number, either.
        const isNumber = event.currentTarget.value !== "" && Number.isFinite(typed);
        if (isNumber && typed !== Number(value)) onChange(typed);
      }}
    />
  );
}
