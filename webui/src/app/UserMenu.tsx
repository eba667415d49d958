import { Menu, UnstyledButton, useMantineColorScheme } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { logout } from "@/api/session";
import type { Me } from "@/api/types";
import { forgetDraftInAllTabs } from "@/features/job-file/storedDraft";
import { live } from "@/live/live";
import { documentationAddress } from "@/ui/Documentation";
import { Icon } from "@/ui/Icon";
import { notifyError } from "@/ui/notify";
import css from "./UserMenu.module.css";

export function UserMenu({ user, onKeys }: { user: Me; onKeys: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const documentation = documentationAddress("index.html");

  async function leave() {
    try {
      await logout();
    } catch (error) {
      return notifyError(error, "Could not log out");
    }
    live.close();
    forgetDraftInAllTabs();
    queries.clear();
    await navigate({ to: "/login" });
  }

  return (
    <Menu position="top-start" width={200}>
      <Menu.Target>
        <UnstyledButton className={css.user}>
          <span className={css.cell} aria-hidden="true">
            {user.username.slice(0, 1).toUpperCase()}
          </span>
          <span className="clip">{user.username}</span>
          {user.is_admin ? <span className={css.role}>admin</span> : null}
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component={Link} to="/settings" leftSection={<Icon name="key" size={14} />}>
          Settings
        </Menu.Item>
        {documentation ? (
          <Menu.Item
            component="a"
            href={documentation}
            target="_blank"
            rel="noopener"
            leftSection={<Icon name="bookmark" size={14} />}
          >
            Documentation
          </Menu.Item>
        ) : null}
        <Menu.Item
          component="a"
          href="/api/v1/docs"
          target="_blank"
          rel="noopener"
          leftSection={<Icon name="external" size={14} />}
        >
          API documentation
        </Menu.Item>
        <Menu.Item leftSection={<Icon name="help" size={14} />} onClick={onKeys}>
          Keyboard shortcuts
        </Menu.Item>
        <Menu.Item component={Link} to="/about" leftSection={<Icon name="info" size={14} />}>
          About Skep
        </Menu.Item>
        <Menu.Divider />
        <ColorSchemeItems />
        <Menu.Divider />
        <Menu.Item leftSection={<Icon name="logout" size={14} />} onClick={() => void leave()}>
          Log out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

const COLOR_SCHEMES = [
  { value: "light", label: "Light", icon: "sun" },
  { value: "dark", label: "Dark", icon: "moon" },
  { value: "auto", label: "Like the system", icon: "screen" },
] as const;

function ColorSchemeItems() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return COLOR_SCHEMES.map(({ value, label, icon }) => (
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
