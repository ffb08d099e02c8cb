import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { alertSearch } from "../searches/alerts";
import { auditSearch } from "../searches/audit";
import { energySearch } from "../searches/energy";
import { historySearch } from "../searches/history";
import { listSearch } from "../searches/list";
import { pageSearch } from "../searches/page";
import { siteSearch } from "../searches/trading";
import { organization } from "./frames";

const plant = createRoute({
  getParentRoute: () => organization,
  path: "/plants/$plantId",
  component: lazyRouteComponent(() => import("../screens/plant"), "PlantFrame"),
});

const plantStart = createRoute({
  getParentRoute: () => plant,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/o/$slug/plants/$plantId/live", params });
  },
});

const plantLive = createRoute({
  getParentRoute: () => plant,
  path: "/live",
  component: lazyRouteComponent(() => import("../screens/plant-live"), "PlantLiveScreen"),
});

const plantHistory = createRoute({
  getParentRoute: () => plant,
  path: "/history",
  validateSearch: historySearch,
  component: lazyRouteComponent(() => import("../screens/plant-history"), "PlantHistoryScreen"),
});

const plantEnergy = createRoute({
  getParentRoute: () => plant,
  path: "/energy",
  validateSearch: energySearch,
  component: lazyRouteComponent(() => import("../screens/plant-energy"), "PlantEnergyScreen"),
});

const plantDevices = createRoute({
  getParentRoute: () => plant,
  path: "/devices",
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import("../screens/plant-devices"), "PlantDevicesScreen"),
});

const plantCommands = createRoute({
  getParentRoute: () => plant,
  path: "/commands",
  component: lazyRouteComponent(() => import("../screens/plant-commands"), "PlantCommandsScreen"),
});

const plantTrading = createRoute({
  getParentRoute: () => plant,
  path: "/trading",
  validateSearch: siteSearch,
  component: lazyRouteComponent(() => import("../screens/plant-trading"), "PlantTradingScreen"),
});

const plantCredentials = createRoute({
  getParentRoute: () => plant,
  path: "/credentials",
  component: lazyRouteComponent(() => import("../screens/plant-credentials"), "PlantCredentialsScreen"),
});

const plantMessages = createRoute({
  getParentRoute: () => plant,
  path: "/messages",
  validateSearch: pageSearch,
  component: lazyRouteComponent(() => import("../screens/plant-messages"), "PlantMessagesScreen"),
});

const plantAlerts = createRoute({
  getParentRoute: () => plant,
  path: "/alerts",
  validateSearch: alertSearch,
  component: lazyRouteComponent(() => import("../screens/plant-alerts"), "PlantAlertsScreen"),
});

const plantAudit = createRoute({
  getParentRoute: () => plant,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import("../screens/plant-audit"), "PlantAuditScreen"),
});

/** The pages of a plant. */
export const plantPages = plant.addChildren([
  plantStart,
  plantLive,
  plantHistory,
  plantEnergy,
  plantDevices,
  plantCommands,
  plantMessages,
  plantAlerts,
  plantTrading,
  plantCredentials,
  plantAudit,
]);
