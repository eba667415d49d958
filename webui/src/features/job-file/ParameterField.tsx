import { Switch, TextInput } from "@mantine/core";
import { AmountField } from "./AmountField";
import type { ParameterValue } from "./jobForm";

interface Props {
  name: string;
  value: ParameterValue;
  onChange: (value: ParameterValue) => void;
}

/** A field of the type that a parameter has now. */
export function ParameterField({ name, value, onChange }: Props) {
  if (typeof value === "boolean") {
    return (
      <Switch
        label={name}
        checked={value}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    );
  }
  return typeof value === "number" ? (
    <AmountField label={name} value={value} onChange={onChange} />
  ) : (
    <TextInput
      label={name}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
