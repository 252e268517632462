"""Words by which an answer speaks of something that was done, in a dozen languages.

Lists have gaps, and words have other meanings.  Therefore they only decide whether a fact of the
records is told below the answer; what stands there is true in any case.
"""

import msgspec


class Language(msgspec.Struct, frozen=True):
    """The words of one language, parted by spaces.

    *done* tell a completed action where one of *own* stands shortly before it: the writer, or
    whose things it is about.  One that ends in ``-`` is the beginning of a word.  *looked* are
    the same for what only looks something up.  *phrases*, parted by ``|``, tell it by themselves.
    Words of *unless* before it make it a wish, a question, a denial, or somebody else's action.
    """

    own: str = ""
    done: str = ""
    looked: str = ""
    phrases: str = ""
    unless: str = ""


LANGUAGES = (
    Language(  # English
        own="i i've we we've elwood been now that's everything's all your both ahead",
        done=(
            "sent emailed e-mailed mailed messaged texted posted published forwarded notified "
            "delivered submitted informed alerted invited saved stored archived logged wrote "
            "created added edited updated changed modified replaced fixed corrected "
            "generated removed cleared cleaned deleted erased emptied moved renamed copied shared "
            "uploaded downloaded synced imported exported merged overwritten installed uninstalled "
            "deployed shipped released executed restarted rebooted reset launched started "
            "committed pushed pulled cloned rebuilt migrated upgraded enabled disabled activated "
            "configured scheduled rescheduled planned cancelled canceled paused resumed booked "
            "booking reserved ordered bought purchased paid transferred subscribed unsubscribed "
            "registered completed complete finished processed done handled settled applied "
            "arranged placed remembered noted recorded closed replied called turned switched put "
            "live"
        ),
        looked="checked double-checked verified searched googled fetched retrieved visited",
        phrases=(
            "on its way|on their way|taken care of|all set|good to go|went through|up and running|"
            "tests pass|all passed|everything passed|was able to|i managed to|successfully|"
            "i ran the|i ran all|i ran your|i read the file|i've read the|i have read the|i've set|"
            "i set a|i set up|i've told|i let |i've let |made a note|is fixed now|is set for|"
            "reminder set|reminder is set|i'll remind you|i will remind you|you'll be reminded|"
            "you will be reminded|you'll get a reminder"
        ),
        unless=(
            "not no never nothing none nobody neither cannot without if when whenever once unless "
            "whether would could should can may might will shall must before until you he she "
            "they who did do does probably perhaps maybe think says said imagine well by me"
        ),
    ),
    Language(  # German
        own="ich wir habe hab hab's haben ist sind dein deine deinen",
        done=(
            "gesendet versendet geschickt verschickt gemailt veroffentlicht weitergeleitet "
            "benachrichtigt informiert zugestellt eingereicht gespeichert gesichert abgelegt "
            "hinterlegt archiviert geschrieben erstellt angelegt hinzugefugt erganzt aktualisiert "
            "geandert ersetzt behoben korrigiert eingerichtet entfernt eingetragen notiert gemerkt "
            "geloscht verschoben umbenannt kopiert hochgeladen heruntergeladen installiert "
            "ausgefuhrt gestartet gebucht reserviert bestellt gekauft bezahlt uberwiesen storniert "
            "angemeldet bestatigt geplant gestellt gesetzt erledigt fertig abgeschlossen raus"
        ),
        looked="nachgesehen nachgeschaut gesucht recherchiert gepruft uberpruft abgerufen",
        phrases="bescheid gesagt|erinnere ich dich|ich erinnere dich|dich daran erinnern",
        unless=(
            "nicht nichts kein keine nie niemand wenn falls sobald ob soll sollte sollen kann muss "
            "wurdest werde du er sie noch kannst"
        ),
    ),
    Language(  # French
        own="j'ai je l'ai les ai avons est sont ete votre vos ton ta tes c'est",
        done=(
            "envoye- enregistre- sauvegarde- cree- supprime- efface- modifie- ajoute- programme- "
            "planifie- reserve- commande- achete- paye- installe- deploye- execute- publie- "
            "transfere- termine- fait note- annule- confirme- telecharge- deplace- mis corrige-"
        ),
        looked="verifie- cherche- consulte-",
        phrases="c'est fait|je te rappellerai|je vous rappellerai",
        unless="ne pas n'ai rien jamais si quand dois peux il elle vous tu",
    ),
    Language(  # Spanish
        own="he hemos ha han sido esta estan tu su",
        done=(
            "enviad- guardad- cread- eliminad- borrad- modificad- anadid- programad- planificad- "
            "reservad- comprad- pagad- instalad- desplegad- ejecutad- publicad- transferid- "
            "terminad- hecho anotad- cancelad- confirmad- descargad- movid- actualizad- list-"
        ),
        looked="comprobad- verificad- buscad- consultad- revisad-",
        phrases="te recordare|le recordare|ya esta hecho",
        unless="no nunca nada si cuando puedo debo",
    ),
    Language(  # Portuguese
        own="eu ja foi foram esta estao seu sua o a",
        done=(
            "enviei salvei guardei criei apaguei exclui modifiquei adicionei agendei reservei "
            "comprei paguei instalei executei publiquei transferi terminei fiz anotei cancelei "
            "enviad- salv- criad- apagad- agendad- reservad- pag- instalad- concluid- atualizad- "
            "feito pronto"
        ),
        looked="verifiquei procurei pesquisei consultei",
        phrases="vou te lembrar|lembrarei|vou lembra-lo",
        unless="nao nunca nada se quando posso devo",
    ),
    Language(  # Italian
        own="ho abbiamo e stato stata stati state tuo tua",
        done=(
            "inviat- mandat- salvat- creat- eliminat- cancellat- modificat- aggiunt- programmat- "
            "pianificat- prenotat- ordinat- comprat- pagat- installat- eseguit- pubblicat- "
            "trasferit- completat- fatto annotat- confermat- scaricat- spostat- aggiornat-"
        ),
        looked="verificat- controllat- cercat- consultat-",
        phrases="ti ricordero|le ricordero",
        unless="non mai niente se quando posso devo",
    ),
    Language(  # Dutch
        own="ik heb wij we hebben is zijn werd werden je uw",
        done=(
            "verzonden gestuurd verstuurd gemaild opgeslagen bewaard aangemaakt gemaakt verwijderd "
            "gewist gewijzigd toegevoegd ingepland gepland geboekt gereserveerd besteld gekocht "
            "betaald geinstalleerd uitgevoerd gepubliceerd overgemaakt voltooid gedaan klaar "
            "genoteerd geannuleerd bevestigd gedownload verplaatst bijgewerkt ingesteld"
        ),
        looked="gecontroleerd gezocht opgezocht nagekeken",
        phrases="ik herinner je|ik zal je herinneren",
        unless="niet niets geen nooit als wanneer kan moet zou",
    ),
    Language(  # Swedish, Danish, Norwegian
        own="jag jeg vi har er ar blev din ditt",
        done=(
            "skickat skickade sendt sparat sparade lagret gemt skapat skapade opprettet oprettet "
            "raderat raderade slettet tagit lagt andrat andret uppdaterat oppdatert opdateret "
            "bokat booket bestilt bestallt köpt kjøpt købt betalat betalt installerat installert "
            "installeret kört kjørt kørt publicerat publisert klart klar ferdig færdig "
            "gjort flyttat flyttet"
        ),
        looked="kontrollerat sjekket tjekket sökt søkt søgt",
        phrases="jag paminner dig|jeg minder dig|jeg paminner deg",
        unless="inte ikke aldrig aldri inget om nar kan ska skal",
    ),
    Language(  # Polish, Czech
        own="został została zostało zostały jest byl byla była bylo było jsem jsme",
        done=(
            "wysłan- zapisan- utworzon- usunięt- zmienion- dodan- zaplanowan- zarezerwowan- "
            "zamówion- kupion- opłacon- zainstalowan- wykonan- opublikowan- gotowe zrobione "
            "odeslal- poslal- ulozil- vytvoril- smazal- zmenil- pridal- naplanoval- rezervoval- "
            "objednal- koupil- zaplatil- nainstaloval- spustil- hotovo"
        ),
        looked="sprawdzon- zkontroloval- hledal-",
        phrases=(
            "wysłałem|wysłałam|zapisałem|zapisałam|utworzyłem|utworzyłam|usunąłem|usunęłam|"
            "zmieniłem|zmieniłam|dodałem|dodałam|zaplanowałem|zaplanowałam|zarezerwowałem|"
            "zarezerwowałam|zapłaciłem|zapłaciłam|zrobiłem|zrobiłam|przypomne ci|pripomenu ti"
        ),
        unless="nie ne nic jesli kiedy czy kdyz jestli",
    ),
    Language(  # Russian, Ukrainian
        own="я мы ваше ваш твой твое было был была були я",
        done=(
            "отправил- сохранил- создал- удалил- изменил- добавил- запланировал- забронировал- "
            "заказал- купил- оплатил- установил- запустил- опубликовал- перевел- сделал- "
            "записал- отменил- скачал- переместил- обновил- настроил- отправлен- сохранен- "
            "создан- удален- добавлен- запланирован- забронирован- оплачен- установлен- "
            "выполнен- готово сделано надіслав- зберіг- створив- видалив- зроблено"
        ),
        looked="проверил- искал- нашел- посмотрел-",
        phrases="я напомню|напомню вам|напомню тебе|нагадаю",
        unless="не ничего если когда может хотите",
    ),
    Language(  # Turkish
        phrases=(
            "gonderdim|gonderildi|kaydettim|kaydedildi|olusturdum|olusturuldu|sildim|silindi|"
            "degistirdim|ekledim|eklendi|planladim|planlandi|rezervasyon yaptim|satin aldim|"
            "odedim|odendi|yukledim|yuklendi|calistirdim|tamamladim|tamamlandi|hatirlatacagim"
        ),
        unless="eger",
    ),
    Language(  # Chinese
        phrases=(
            "已发送|已经发送|发送了|已發送|已保存|保存好了|已儲存|已创建|已建立|已删除|已刪除|"
            "已更新|已修改|已添加|已安排|已预订|已預訂|已支付|已安装|已安裝|已执行|已執行|已完成|"
            "完成了|搞定了|我会提醒你|我會提醒你"
        ),
    ),
    Language(  # Japanese
        phrases=(
            "送信しました|送りました|保存しました|作成しました|削除しました|更新しました|"
            "変更しました|追加しました|予約しました|登録しました|支払いました|実行しました|"
            "インストールしました|完了しました|設定しました|リマインドします|お知らせします"
        ),
    ),
    Language(  # Korean
        phrases=(
            "보냈습니다|전송했습니다|저장했습니다|만들었습니다|생성했습니다|삭제했습니다|"
            "변경했습니다|추가했습니다|예약했습니다|결제했습니다|설치했습니다|실행했습니다|"
            "완료했습니다|완료되었습니다|알려 드리겠습니다"
        ),
    ),
)
