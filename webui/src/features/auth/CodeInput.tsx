import { TextInput } from "@mantine/core";

interface Props {
  value: string;
  onChange: (value: string) => void;
  autoFocus?: boolean;
  description?: string | undefined;
  required?: boolean;
}

/** A code of an authenticator app, or a recovery code. */
export function CodeInput(props: Props) {
  const { value, onChange, autoFocus = false, description, required = true } = props;
  return (
    <TextInput
      label="Code"
      description={description ?? "From your authenticator app, or a recovery code"}
      name="code"
      size="sm"
      inputMode="numeric"
      autoComplete="one-time-code"
      spellCheck={false}
      maxLength={40}
      autoFocus={autoFocus}
      required={required}
      withAsterisk={false}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
