import { TextInput } from "@mantine/core";

interface Props {
  description?: string;
  placeholder?: string;
  value: string;
  onChange: (value: string) => void;
}

/** The required name of something new; the first field of its dialog. */
export function NameInput({ description, placeholder, value, onChange }: Props) {
  return (
    <TextInput
      label="Name"
      description={description}
      placeholder={placeholder}
      required
      withAsterisk={false}
      data-autofocus
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
