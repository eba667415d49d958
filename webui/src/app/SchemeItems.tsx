import { Menu, useMantineColorScheme } from "@mantine/core";
import { Icon } from "@/ui/Icon";

const SCHEMES = [
  { value: "light", label: "Light", icon: "sun" },
  { value: "dark", label: "Dark", icon: "moon" },
  { value: "auto", label: "Like the system", icon: "screen" },
] as const;

export function SchemeItems() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return SCHEMES.map(({ value, label, icon }) => (
    <Menu.Item
      key={value}
      role="menuitemradio"
      aria-checked={colorScheme === value}
      leftSection={<Icon name={icon} size={14} />}
      rightSection={colorScheme === value ? <Icon name="check" size={12} /> : null}
      onClick={() => setColorScheme(value)}
    >
      {label}
    </Menu.Item>
  ));
}
