import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  type AnyRoute,
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  RouterProvider,
} from "@tanstack/react-router";
import { render } from "@testing-library/react";
import type { ReactNode } from "react";
import { theme } from "@/app/theme";

/** Draws a component as the app would: with theme, queries, and a router that knows one page. */
export function renderPage(page: ReactNode) {
  const root = createRootRoute();
  const any = createRoute({ getParentRoute: () => root, path: "$", component: () => page });
  return renderRoutes(root.addChildren([any]), "/here");
}

/** Draws the page at an address, with a router that knows these pages where the app has them. */
export function renderPages(pages: Record<string, () => ReactNode>, address: string) {
  const root = createRootRoute();
  const shell = createRoute({ getParentRoute: () => root, id: "shell" });
  const known = Object.entries(pages).map(([path, component]) =>
    createRoute({ getParentRoute: () => shell, path, component }),
  );
  return renderRoutes(root.addChildren([shell.addChildren(known)]), address);
}

function renderRoutes(routeTree: AnyRoute, address: string) {
  const router = createRouter({
    routeTree,
    history: createMemoryHistory({ initialEntries: [address] }),
  });
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  return render(
    <MantineProvider theme={theme} env="test">
      <QueryClientProvider client={queries}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}
