import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, dataOf } from "../api/client";
import { ApiError } from "../api/error";
import { noteLogout } from "../api/session-clock";
import { LANGUAGES, type Language, setLanguage, useLanguage, useTexts } from "../i18n";
import { setTheme, THEMES, type Theme, useTheme } from "../theme";
import { Failure } from "../ui/failure";
import { SelectField } from "../ui/fields";

/** Colours, language, further links and the end of the session. */
export function AccountPanel({ children }: { children: ReactNode }) {
  const texts = useTexts();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const language = useLanguage();
  const theme = useTheme();
  const logout = useMutation({
    mutationFn: endSession,
    onSuccess: async () => {
      noteLogout();
      await navigate({ to: "/login", search: {} });
      queryClient.clear();
    },
  });
  const changeLanguage = useMutation({ mutationFn: setLanguage });
  return (
    <>
      <SelectField
        label={texts.menu.theme}
        value={theme}
        onChange={(event) => setTheme(event.target.value as Theme)}
        values={THEMES}
        labels={texts.menu.themes}
      />
      <label>
        {texts.menu.language}
        <select value={language} onChange={(event) => changeLanguage.mutate(event.target.value as Language)}>
          {Object.entries(LANGUAGES).map(([code, label]) => (
            <option key={code} value={code} lang={code}>
              {label}
            </option>
          ))}
        </select>
      </label>
      {children}
      <button type="button" onClick={() => logout.mutate()} disabled={logout.isPending}>
        {texts.menu.logout}
      </button>
      <Failure error={logout.error ?? changeLanguage.error} />
    </>
  );
}

/** End the session, unless it has ended already. */
async function endSession(): Promise<void> {
  try {
    await dataOf(api.POST("/api/v1/auth/logout", {}));
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
}
